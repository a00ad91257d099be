"""Local SGD and gossip."""
