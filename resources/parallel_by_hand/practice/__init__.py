"""Real jobs in parallel: pools, accidents, blocks, a diagnosis."""
