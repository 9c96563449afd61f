"""A module for each figure, and what they share."""
