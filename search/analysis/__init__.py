"""What the launches of a study say: results, winners, questions, drift, calibration."""
