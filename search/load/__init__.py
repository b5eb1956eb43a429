"""Load on a ready server and the numbers that come of it: client, prompts, phases, statistics."""
