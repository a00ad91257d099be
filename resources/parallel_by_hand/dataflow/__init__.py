"""Graphs of operations, placed on devices and executed."""
