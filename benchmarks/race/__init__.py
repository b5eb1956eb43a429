"""A race of samplers over finite tables: launches, time and failures to a share of the hypervolume.

    python -m benchmarks.race --half building --samplers finite-gp tpe random --seeds 3 --jobs 2

`docs/lab/searching.md` has the rules. The parts: `tables` (what is raced on), `worlds` (tables of our
own), `sources` (where tables come from), `contest` (one race), `rivals` (who races), `scoring` (one
race in figures), `summary` (many of them), `printing` and `files` (for people).
"""
