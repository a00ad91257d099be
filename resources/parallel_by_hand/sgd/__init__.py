"""SGD on digits: batches, noise, shards, averages."""
