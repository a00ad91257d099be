"""Guesses, checks, hints and progress: where the learner's answers are judged."""
