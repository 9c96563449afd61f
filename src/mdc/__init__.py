"""Masked diffusion captioning: learning visual features from captions, as a pipeline anyone can rerun."""
