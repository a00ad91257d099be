"""Replicas in threads and in processes, and a museum of their bugs."""
