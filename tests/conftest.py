"""What every test may rely on."""

import signal

# A shell starts background jobs with SIGINT ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
