"""The figures of MC-Diffusion."""
