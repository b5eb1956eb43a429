"""The loop of one study: stages, trials, launches, workers, budget, resume."""
