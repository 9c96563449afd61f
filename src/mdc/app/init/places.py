"""Where the user's files lie under MDC_DATA: params.yaml names no folder outside of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mdc.plan.records import UserError


def places_under(root: Path, given: Sequence[str]) -> list[str]:
    """The paths of ``given`` relative to ``root``, which is MDC_DATA's folder.

    A path may start from ``root`` or from the current folder; where both exist, the one from ``root`` is meant. Links are
    not followed, so a folder that is linked into ``root`` lies there. UserError if one is nowhere, or outside of ``root``.
    """
    top = _absolute(root)
    found = [_first_there(top, path) for path in given]
    for place in found:
        if not place.is_relative_to(top):
            common = os.path.commonpath([place if place.is_dir() else place.parent for place in found])
            hint = f"; or set MDC_DATA={common}, which holds what you name" if common != os.sep else ""
            raise UserError(
                f"{place}: is outside {top}, the folder of your data (MDC_DATA; without it, data/); put or "
                f"link it there{hint}"
            )
    return [place.relative_to(top).as_posix() for place in found]


def is_anywhere(root: Path, path: str) -> bool:
    """Whether there is such a file or folder, from ``root`` or from the current folder."""
    return any(os.path.lexists(_absolute(base / path)) for base in (root, Path()))


def _first_there(top: Path, path: str) -> Path:
    """``path`` from ``top`` or from the current folder; if both are there, rather the one that lies in ``top``."""
    there = [place for base in (top, Path()) if (place := _absolute(base / path)).exists()]
    if not there:
        raise UserError(f"{path}: no such file or folder, neither in {top} (MDC_DATA) nor in the current folder")
    return next((place for place in there if place.is_relative_to(top)), there[0])


def _absolute(path: Path) -> Path:
    """Without links being followed, as ``Path.resolve`` would."""
    return Path(os.path.normpath(Path.cwd() / path))
