"""The figures of the paper's neighbours."""
