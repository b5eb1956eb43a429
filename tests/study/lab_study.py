"""The study file of the small study that `lab` runs; under a name of its own, since every folder has a `conftest`."""

STUDY = """\
study: lab
model:
  target: /models/target
  draft: /models/draft
  algorithm: EAGLE3
hardware:
  gpus: 1
  kind: H200
  sm: 90
  memory_gib: 141
  links: nvlink
engine:
  release: 0.5.11
space:
  spec_version: [v1, v2]
  topk: [1, 2]
  num_steps: [1, 2, 3]
  num_draft_tokens: [tree]
objectives: {latency: 1, throughput: 100}
watch: [30]
known: [v2-k1-s2-d3]
budget: {launches: 40, hours: 100, failures_in_a_row: 3, closing: false, confirm: 0, ladder: 0}
sampler: random
"""
