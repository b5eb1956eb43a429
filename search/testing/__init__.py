"""A fake SGLang server, for our own tests and for those of users. Needs no GPU and boots at once."""

from search.testing._install import install_fake_sglang

__all__ = ["install_fake_sglang"]
