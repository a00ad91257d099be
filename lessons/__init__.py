"""The notebooks that learners open, and what they are made of."""
