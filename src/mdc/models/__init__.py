"""Encoders, decoders, tokens of text and tokenizers of images."""
