"""What workers cost, and how many are best."""
