"""Tokenizers of images: a picture as a grid of codes."""
