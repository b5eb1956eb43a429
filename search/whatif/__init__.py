"""What would a config bring here? Legality, evidence, a forecast, a verdict."""
