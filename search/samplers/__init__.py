"""Which config to launch next: samplers over the finite list of valid configs."""
