"""Servers that cannot leak: command line, supervisor, guardian, readiness, read-back, classification."""
