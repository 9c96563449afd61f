"""The tables of MC-Diffusion."""
