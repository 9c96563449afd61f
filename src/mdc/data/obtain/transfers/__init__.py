"""How files are fetched from other machines, and from which addresses they may be."""
