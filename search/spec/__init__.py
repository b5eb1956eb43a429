"""The study file: its values, its checks, and the fingerprint of what must not change."""
