"""Tests interrupt themselves and others; a shell's background job would not let them."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
