"""The folder of the user's own data."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder that relative paths of sources start from: the environment's MDC_DATA, or ``data``."""
    return Path(os.environ.get("MDC_DATA") or "data")
