"""CapPa: autoregressive or parallel decoding."""
