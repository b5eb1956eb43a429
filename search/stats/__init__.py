"""Statistics of measurements: estimates and their uncertainty, repeats, accept lengths, losslessness."""
