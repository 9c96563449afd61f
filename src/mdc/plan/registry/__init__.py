"""Every dataset that the project knows: source, licence, citation, size, items, and what its files must show."""
