"""Where the user's files lie under MDC_DATA: params.yaml names no folder outside of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mdc.plan.records import UserError


def places_under(root: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The paths of ``given`` {option: path} relative to ``root``, which is MDC_DATA's folder.

    A path may start from ``root`` or from the current folder; where both exist, the one from ``root`` is meant. Links are
    not followed, so a folder that is linked into ``root`` lies there. UserError if one is nowhere, or outside of ``root``.
    """
    top = _absolute(root)
    found = {option: _first_there(top, option, path) for option, path in given.items()}
    for option, place in found.items():
        if not place.is_relative_to(top):
            common = os.path.commonpath([place if place.is_dir() else place.parent for place in found.values()])
            hint = f"; or set MDC_DATA={common}, which holds what you name" if common != os.sep else ""
            raise UserError(
                f"{option} {place}: is outside {top}, the folder of your data (MDC_DATA; without it, data/); put or "
                f"link it there{hint}"
            )
    return {option: place.relative_to(top).as_posix() for option, place in found.items()}


def _first_there(top: Path, option: str, path: str) -> Path:
    """``path`` from ``top`` or from the current folder; if both are there, rather the one that lies in ``top``."""
    there = [place for base in (top, Path()) if (place := _absolute(base / path)).exists()]
    if not there:
        what = "file" if option == "--captions" else "folder"
        raise UserError(f"{option} {path}: no such {what}, neither in {top} (MDC_DATA) nor in the current folder")
    place = next((place for place in there if place.is_relative_to(top)), there[0])
    if place.is_dir() == (option == "--captions"):
        need = "a file is needed, and this is a folder" if place.is_dir() else "a folder is needed, and this is a file"
        raise UserError(f"{option} {place}: {need}")
    return place


def _absolute(path: Path) -> Path:
    """Without links being followed, as ``Path.resolve`` would."""
    return Path(os.path.normpath(Path.cwd() / path))
