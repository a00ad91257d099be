"""Layers, attention, vocabulary and sequence, split over ranks."""
