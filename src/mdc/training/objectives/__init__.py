"""The objectives: a module for each."""
