"""What must hold before the first GPU minute: machine, checkpoints, plan, the installed release."""
