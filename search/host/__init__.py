"""Facts of a machine: GPUs, links, memory, installed packages."""
