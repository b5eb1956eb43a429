"""Whole studies with known truth: the loop, its sampler, its stages and its verdict, on computed servers and on tables.

Every study is run by `run_study` as a user's is: `spaces/kimi-k25.yaml` with its own budget, on a cost model whose
configs were made equal at every load (`levelled`), or the replay of a table of ten equal configs with six starts each
(`tables`). One config may be better at C=100. What is told at the end is held against that truth. What a study does
besides telling is left out: no page, no file, no database (`memory`).
"""
