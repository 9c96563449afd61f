"""Labelled images in folders: ``<path>/<split>/<class>/<image>``, as torchvision's ImageFolder has it.

Classes are the folders' names in the order of their characters. Images lie in the class's folder itself; whatever else
lies there is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import IMAGE_ENDINGS, RawSample, Skipped, image_file
from mdc.data.sources.source import Source
from mdc.plan.records import UserError

_SPLITS = ("train", "test")


class ClassFolder(Source[RawSample]):
    """Images of one split, class by class, in the order of the files' names; keys number the files of the split."""

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path, splits: Mapping[str, str] | None = None) -> None:
        """``splits`` names the splits' folders in the source's place."""
        super().__init__(source)
        named = source["splits"] if splits is None else splits
        self._folders = {split: data_dir / source["path"] / named[split] for split in _SPLITS}
        self.classes = self.folder_names = _same_classes(self._folders)

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        number, folder = 0, self._folders[split]
        for label, name in enumerate(self.folder_names):
            for path in sorted(_entries(folder / name)):
                key, place = f"{number:08d}", path.relative_to(folder).as_posix()
                number += 1
                if path.name.startswith("."):
                    skipped.add("hidden file", key, place)
                elif path.suffix.lower().lstrip(".") not in IMAGE_ENDINGS:
                    skipped.add("not named as an image", key, place)
                elif (found := image_file(path, skipped, key, place)) is not None:
                    yield RawSample(key, *found, label=label)


def open_source(source: Mapping[str, Any], data_dir: Path) -> ClassFolder:
    """See mdc.data.sources.source."""
    return ClassFolder(source, data_dir)


def _same_classes(folders: Mapping[str, Path]) -> list[str]:
    """The names of the class folders, which must be the same in both splits."""
    found = {split: _class_folders(folder) for split, folder in folders.items()}
    for split, other in (_SPLITS, _SPLITS[::-1]):
        if missing := sorted(set(found[other]) - set(found[split])):
            raise UserError(
                f"{folders[split]}: {len(missing)} classes of the other split are missing: {', '.join(missing[:5])}"
            )
    return found["train"]


def _class_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; needed: a folder a split (source.splits names them), or set MDC_DATA"
        )
    found = sorted(path.name for path in _entries(folder) if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise UserError(f"{folder}: holds no folder; needed: one for each class, with its images")
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror})") from None
