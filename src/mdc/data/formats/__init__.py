"""Readers of files: images, captions, tars, parquet and text tables."""
