"""What a device keeps: bytes for backward, a budget, recomputation."""
