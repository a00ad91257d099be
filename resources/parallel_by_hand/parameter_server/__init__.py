"""A server and its workers, in step and out of step."""
