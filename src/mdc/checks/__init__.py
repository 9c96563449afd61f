"""Whether results hold: ``mdc verify``, ``mdc why`` and ``mdc accept-edit``."""
