"""The tables of the paper's neighbours."""
