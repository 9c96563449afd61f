"""A dataset's own folder, and the images that its lists name, which must be inside it."""

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from mdc.data.formats.samples import IMAGE_ENDINGS, Encoded, LeftOut, read_file
from mdc.plan.data_folder import Links, is_clutter, walk
from mdc.plan.records import UserError


def dataset_folder(source: Mapping[str, Any], data_dir: Path) -> Path:
    """A dataset's folder. UserError if it does not exist; it names the key of the scale."""
    return needed(Path(data_dir) / source["path"], dataset=source.get("dataset", source["kind"]))


def needed(
    path: Path, what: Literal["folder", "file", "file or folder"] = "folder", dataset: str | None = None
) -> Path:
    """``path`` if it exists, otherwise a UserError that says what to do; for a published ``dataset`` it names the key of the
    scale."""
    if {"folder": path.is_dir, "file": path.is_file, "file or folder": path.exists}[what]():
        return path
    remedy = "put it there, or set MDC_DATA to the folder that has it"
    if dataset is not None:
        remedy = (
            f"put {dataset} there (`mdc data list` says from where), or name the place of your own copy in "
            f"data.datasets.{dataset}.path of the scale; relative paths start from MDC_DATA"
        )
    raise UserError(f"{path}: no such {what}; {remedy}")


def inside(root: Path, name: str, follow: bool = False) -> Path | None:
    """The resolved path of ``name`` under ``root``, which must be resolved; None if it is outside (by '..', a link, or an
    absolute path). With ``follow``, for a person's own data, a link may lead anywhere; '..' and absolute paths may not."""
    try:
        place = (root / name).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL in the name, a name too long, a loop of links
        return root / "\0"  # an impossible file name: the image is left out as unreadable
    allowed = [place, Path(os.path.normpath(root / name))] if follow else [place]
    return place if any(path.is_relative_to(root) and path != root for path in allowed) else None


def coco_image(name: str) -> str:
    """The name of an MSCOCO image in all sets: its number, since file names differ between years."""
    digits = re.search(r"(\d+)\.\w+$", name)
    return f"coco:{int(digits[1])}" if digits else f"coco:{name}"


def listed_name(name: str) -> str:
    """An image's name in a table, normalised: with single forward slashes."""
    return posixpath.normpath(name.strip().replace("\\", "/"))


def files_below(
    folder: Path, links: Links | None = None, counts: Callable[[Path], bool] = lambda _: False
) -> Iterator[Path]:
    """All files of a folder and its subfolders, without clutter, in any order; ``links`` and ``counts`` as in ``walk``. UserError
    for a folder that cannot be read."""
    return (place / name for place, names in walk([folder], links, counts) for name in names)


def listed_files(folders: Sequence[Path], links: Links | None, counts: Callable[[Path], bool]) -> list[Path]:
    """All files of folders and their subfolders in the order of their paths, without links that lead nowhere; ``links`` and
    ``counts`` as in ``walk``."""
    below = {place / name for place, names in walk(folders, links, counts) for name in names}
    return sorted(below.difference(links.broken if links else ()))


def size_and_time(path: Path) -> list[Any]:
    """[name, bytes, modification time in ns] of a file, to detect changes."""
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def is_image_name(path: Path) -> bool:
    """Whether a file has an image's extension."""
    return not is_clutter(path.name) and path.suffix.lower().lstrip(".") in IMAGE_ENDINGS


def read_named(root: Path, name: str, image_size: int | None = None, *, follow: bool = False) -> Encoded:
    """``read_file`` of the image ``name`` under ``root``, which must be resolved. LeftOut also for an image outside of it, see
    ``inside``."""
    if (place := inside(root, name, follow)) is None:
        raise LeftOut("image outside the folder")
    return read_file(place, image_size)


def named_images(root: Path, follow: bool = False) -> Callable[[str], Encoded]:
    """``read_named`` of the images of a folder. The last one is cached, because lists name an image several times in a row."""
    return lru_cache(1)(partial(read_named, root.resolve(), follow=follow))
