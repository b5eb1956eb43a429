"""A cost model of speculative decoding: pure functions of a few named parameters."""
