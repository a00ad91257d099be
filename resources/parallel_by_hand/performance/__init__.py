"""Speedup: its two laws, a serial share, a queue at counters."""
