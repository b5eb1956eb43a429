"""Whether intervals hold the truth and verdicts are right, where the truth is known."""
