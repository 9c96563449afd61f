"""Image–caption pairs and labelled images: downloaded, read, cut into shards, and dealt out in batches."""
