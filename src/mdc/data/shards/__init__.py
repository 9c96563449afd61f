"""Sets of samples on disk as shards with an index, written by jobs and read at random."""
