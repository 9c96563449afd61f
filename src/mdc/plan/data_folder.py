"""The folder of the user's own data."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder that relative paths of sources start from: the environment's MDC_DATA, or ``data``."""
    return Path(os.environ.get("MDC_DATA") or "data")


def weights_files(model: str, weights: str | None, data: Path) -> list[Path]:
    """The local files of a model of open_clip, timm or torchvision: those of its folder (``local-dir:FOLDER``), or the one that
    ``weights`` names, in ``data`` or else from here. None if the library knows the names."""
    if model.startswith("local-dir:"):
        files = Path(model.removeprefix("local-dir:")).glob("*")
        return sorted(file for file in files if file.is_file() and file.suffix != ".md")
    places = [] if weights is None else [data / weights, Path(weights)]
    return [place for place in places if place.is_file()][:1]
