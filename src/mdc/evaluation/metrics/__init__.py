"""Metrics of captions against references, and their file formats."""
