"""DistributedDataParallel: hooks, buckets, overlap."""
