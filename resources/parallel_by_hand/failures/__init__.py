"""Failures, checkpoints, and what goes on after them."""
