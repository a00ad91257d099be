"""Alternatives timed in turn, the machine and its capacity, messages and bytes."""
