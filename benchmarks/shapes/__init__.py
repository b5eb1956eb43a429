"""Shapes switched to in one start, beside the same shapes started apart."""
