"""The eight collectives, all-reduce four ways, and what they cost."""
