"""One study from its file to its judgement: loop, stages, budget, resume, verdicts.

Import from the modules: `run_study` from `loop`, `judge` from `judge`, `load_study` from
`study_file`, `missing_for` from `preflight`. Nothing is imported here, so that whoever needs the
values alone (`spec`, `judgement`, `events`) does not load Optuna.
"""
