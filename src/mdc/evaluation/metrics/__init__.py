"""Captions that were written, held against references: metrics, and the files in which they are exchanged."""
