"""Interleavings, lost updates, deadlocks."""
