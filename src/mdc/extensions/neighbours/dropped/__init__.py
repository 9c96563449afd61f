"""MDC whose decoder reads a part of the image in training (OpenVision 2)."""
