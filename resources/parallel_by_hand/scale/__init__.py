"""The simulator and the planner, from two cores to ten thousand GPUs."""
