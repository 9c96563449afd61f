"""Labelled images in folders (:mod:`mdc.data.formats.class_layout`). Classes are numbered in the order of the folders' names."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.class_layout import class_layout
from mdc.data.formats.folders import is_image_name
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import LeftOut, read_file
from mdc.data.sources.cleaned import LabelledImages


class ClassFolder(LabelledImages):
    """Images of one split, class by class, in the order of the files' names; keys number the files of the split. Files without an
    image's extension are left out and counted."""

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path, splits: Mapping[str, str] | None = None) -> None:
        """``splits``: the splits' folders, instead of the source's."""
        super().__init__(source)
        self._layout = class_layout(data_dir / source["path"], source.get("splits") if splits is None else splits)
        self.classes = self.folder_names = self._layout.classes
        if self._layout.note:
            self.facts = {"layout": self._layout.note}

    def items(self, split: str) -> Iterator[SourceItem]:
        number = 0
        for label, name in enumerate(self.folder_names):
            for path in self._layout.files(split, name):
                place, named = path.relative_to(self._layout.root).as_posix(), is_image_name(path)
                read = partial(read_file, path) if named else LeftOut("not named as an image")
                yield SourceItem(f"{number:08d}", place, read, label=label)
                number += 1


open_source = ClassFolder  # see mdc.data.sources.source
