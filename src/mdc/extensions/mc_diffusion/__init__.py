"""MC-Diffusion: captions by mask-and-replace diffusion."""
