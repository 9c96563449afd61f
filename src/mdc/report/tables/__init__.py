"""A module for each kind of table, and what they share."""
