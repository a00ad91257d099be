"""One language model, trained in every way: the ladder."""
