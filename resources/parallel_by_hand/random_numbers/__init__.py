"""Streams of random numbers for workers, loaders and ranks."""
