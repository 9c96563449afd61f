"""VirTex: a decoder each way."""
