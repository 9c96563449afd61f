"""Word embeddings of others."""
