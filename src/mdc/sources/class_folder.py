"""Labelled images in folders: ``<path>/<split>/<class>/<image>``, as torchvision's ImageFolder has it.

Classes are the folders' names in the order of their characters. Images lie in the class's folder itself; whatever else
lies there is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.formats.samples import IMAGE_ENDINGS, RawSample, Skipped, image_file
from mdc.records import UserError

Source = Mapping[str, Any]
SPLITS = ("train", "test")


def samples(source: Source, split: str, data_dir: Path, skipped: Skipped) -> Iterator[RawSample]:
    """Images of one split, class by class, in the order of the files' names; keys number the files of the split."""
    number = 0
    folder = split_folder(source, split, data_dir)
    for label, name in enumerate(classes(source, data_dir)):
        for path in sorted(_entries(folder / name)):
            key, place = f"{number:08d}", path.relative_to(folder).as_posix()
            number += 1
            if path.name.startswith("."):
                skipped.add("hidden file", key, place)
            elif path.suffix.lower().lstrip(".") not in IMAGE_ENDINGS:
                skipped.add("not named as an image", key, place)
            elif (found := image_file(path, skipped, key, place)) is not None:
                yield RawSample(key, *found, label=label)


def classes(source: Source, data_dir: Path) -> list[str]:
    """The classes, which must be the same in both splits."""
    found = {split: _class_folders(split_folder(source, split, data_dir)) for split in SPLITS}
    for split, other in (SPLITS, SPLITS[::-1]):
        missing = sorted(set(found[other]) - set(found[split]))
        if missing:
            folder = split_folder(source, split, data_dir)
            raise UserError(
                f"{folder}: {len(missing)} classes of the other split are missing: {', '.join(missing[:5])}"
            )
    return found["train"]


def split_folder(source: Source, split: str, data_dir: Path) -> Path:
    """Where a split's class folders lie."""
    return Path(data_dir) / source["path"] / source.get("splits", {}).get(split, split)


def _class_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; needed: a folder a split (source.splits names them), or set MDC_DATA"
        )
    found = sorted(path.name for path in _entries(folder) if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise UserError(f"{folder}: holds no folder; needed: one a class, with its images")
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror})") from None
