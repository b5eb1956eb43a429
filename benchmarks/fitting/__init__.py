"""Fits the cost model to measured tables."""
