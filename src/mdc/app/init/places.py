"""Paths of the user's files relative to MDC_DATA, which params.yaml needs."""

import os
from collections.abc import Sequence
from pathlib import Path

from mdc.plan.records import UserError


def places_under(root: Path, paths: Sequence[str]) -> list[str]:
    """The paths of ``paths`` relative to ``root``, which is MDC_DATA's folder.

    A path may start from ``root`` or from the current folder; ``root`` takes precedence. Links are not
    followed, so folders may be linked into ``root``. UserError if one does not exist, or is outside of ``root``.
    """
    top = _absolute(root)
    places = [_first_there(top, path) for path in paths]
    for place in places:
        if not place.is_relative_to(top):
            common = os.path.commonpath([place if place.is_dir() else place.parent for place in places])
            hint = f"; or set MDC_DATA={common}, which holds what you name" if common != os.sep else ""
            raise UserError(
                f"{place}: is outside {top}, the folder of your data (MDC_DATA; without it, data/); put or "
                f"link it there{hint}"
            )
    return [place.relative_to(top).as_posix() for place in places]


def is_anywhere(root: Path, path: str) -> bool:
    """Whether there is such a file or folder, from ``root`` or from the current folder."""
    return any(os.path.lexists(_absolute(base / path)) for base in (root, Path()))


def _first_there(top: Path, path: str) -> Path:
    """``path`` from ``top`` or from the current folder; preferably one in ``top``."""
    existing = [place for base in (top, Path()) if (place := _absolute(base / path)).exists()]
    if not existing:
        raise UserError(f"{path}: no such file or folder, neither in {top} (MDC_DATA) nor in the current folder")
    return next((place for place in existing if place.is_relative_to(top)), existing[0])


def _absolute(path: Path) -> Path:
    """The absolute path, without resolving links."""
    return Path(os.path.normpath(Path.cwd() / path))
