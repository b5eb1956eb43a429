"""Hyperparameter search for SGLang speculative decoding: does speculation pay here, and how?"""

__version__ = "0.1.0"
