"""The folder of the user's own data."""

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder that relative paths of sources start from: the environment's MDC_DATA, or ``data``."""
    return Path(os.environ.get("MDC_DATA") or "data")


def weights_path(weights: str | None, data: Path) -> str | None:
    """``weights`` of a model of others as its library takes them: the path of the file that they name, in ``data`` or else from
    here; a name that the library knows stays, as does None."""
    places = [] if weights is None else [data / weights, Path(weights)]
    return next((str(place) for place in places if place.is_file()), weights)


def weights_files(model: str, weights: str | None, data: Path) -> list[Path]:
    """The local files of a model of open_clip, timm or torchvision: those of its folder (``local-dir:FOLDER``), or that of its
    ``weights``; empty if the library knows the names."""
    if model.startswith("local-dir:"):
        files = Path(model.removeprefix("local-dir:")).glob("[!.]*")
        return sorted(file for file in files if file.is_file() and file.suffix != ".md")
    path = weights_path(weights, data)
    return [Path(path)] if path is not None and Path(path).is_file() else []
