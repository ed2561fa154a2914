"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
