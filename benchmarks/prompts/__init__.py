"""Makes the prompts that are shipped."""
