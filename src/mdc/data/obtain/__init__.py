"""Bringing the datasets of the registry into the data folder."""
