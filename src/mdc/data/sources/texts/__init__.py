"""Captions without images: a module a kind of source."""
