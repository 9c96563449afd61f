"""Mask-and-replace diffusion."""
