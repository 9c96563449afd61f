"""Precomputed inputs of runs: imported weights, and a frozen encoder's tokens of a corpus's images."""
