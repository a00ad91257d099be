"""A checkpoint that is whole at any moment."""
