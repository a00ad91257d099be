"""Drawings and set-ups, each of one lesson alone."""
