"""ARC: autoregressive captioning."""
