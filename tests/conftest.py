"""What every test may rely on."""

import os
import signal

# Before numpy is loaded. Two test processes on two cores with two BLAS threads each wait for one
# another at every small product of the belief: twelve times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts background jobs with SIGINT ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
