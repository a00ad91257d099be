"""Schedules as data, their rules, and stages that carry them out."""
