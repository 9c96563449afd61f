"""Captioned images: a module a kind of source."""
