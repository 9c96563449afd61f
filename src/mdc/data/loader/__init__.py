"""From shards to batches."""
