"""Labelled images: a module a kind of source, and what only these read."""
