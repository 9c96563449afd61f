"""A dataset's own folder: where it must be, and the images that its lists name, which must lie inside it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import Skipped, image_file
from mdc.plan.records import UserError

_CLUTTER = {"__macosx", "thumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "@eadir", "lost+found"}


def dataset_folder(source: Mapping[str, Any], data_dir: Path) -> Path:
    """Where a dataset lies. UserError if there is no such folder; it says which key of the scale names it."""
    return existing_folder(Path(data_dir) / source["path"], source.get("dataset", source["kind"]))


def existing_folder(folder: Path, dataset: str) -> Path:
    """``folder`` if it exists, otherwise a UserError that says what to do."""
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; put {dataset} there (`mdc data list` says from where), or name the place of "
            f"your own copy in data.datasets.{dataset}.path of the scale; relative paths start from MDC_DATA"
        )
    return folder


def existing_file(file: Path, dataset: str) -> Path:
    """``file`` if it exists, otherwise a UserError that says where it belongs."""
    if not file.is_file():
        raise UserError(
            f"{file}: no such file; it belongs to {dataset}, whose place is data.datasets.{dataset}.path of the scale"
        )
    return file


def inside(root: Path, name: str) -> Path | None:
    """Where ``name`` lies under ``root``, which must be resolved.

    None if it climbs out with '..', is a link that leads outside, or is absolute and of another folder.
    """
    try:
        place = (root / name).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL in the name, a name too long, a circle of links
        return root / "\0"  # a name that no file can have: the image is left out as one that cannot be read
    return place if place.is_relative_to(root) and place != root else None


def coco_image(name: str) -> str:
    """What an image of MSCOCO is called in all sets: its number, however a year's folder writes the file's name."""
    digits = re.search(r"(\d+)\.\w+$", name)
    return f"coco:{int(digits[1])}" if digits else f"coco:{name}"


def listed_name(name: str) -> str:
    """An image's name in a table: with single slashes, whichever way Windows wrote them."""
    return posixpath.normpath(name.strip().replace("\\", "/"))


def is_clutter(name: str) -> bool:
    """Whether a folder's entry is there by a system's habit and holds none of the data: hidden files, macOS's and Windows's."""
    return name.startswith(".") or name.casefold() in _CLUTTER


def named_image(
    root: Path, skipped: Skipped, key: str, name: str, image_size: int | None = None
) -> tuple[bytes, str] | None:
    """``image_file`` of the image ``name`` under ``root``, which must be resolved; one that is outside of it is left out."""
    place = inside(root, name)
    if place is None:
        skipped.add("image outside the folder", key, name)
        return None
    return image_file(place, skipped, key, name, image_size)


class NamedImages:
    """The images of a folder by name. The last one is kept, because lists name an image several times in a row."""

    def __init__(self, root: Path, skipped: Skipped) -> None:
        self._root = root.resolve()
        self._skipped = skipped
        self._last: tuple[str, bytes, str] | None = None

    def read(self, key: str, name: str) -> tuple[bytes, str] | None:
        """(encoded bytes, extension); None for an image that is missing, broken or outside: sample ``key`` is left out."""
        if self._last is not None and self._last[0] == name:
            return self._last[1:]
        found = named_image(self._root, self._skipped, key, name)
        if found is not None:
            self._last = (name, *found)
        return found
