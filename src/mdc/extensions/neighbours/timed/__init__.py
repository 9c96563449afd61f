"""MDC whose decoder is conditioned on t."""
