"""A user's own choice set: a table whose rows have an image, its right caption and one or more wrong ones."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import clean_caption
from mdc.data.formats.folders import listed_name, named_images, needed
from mdc.data.formats.samples import ChoiceSample, Skipped, counted, read_image, texts_of
from mdc.data.sources.cleaned import Choices
from mdc.data.sources.named_table import RIGHT, WRONG, NamedTable
from mdc.models.text import has_piece
from mdc.plan.records import UserError


class ChoiceTable(Choices):
    """The rows in the table's order; ``id`` is a row's number, from 0. Rows whose image is missing or broken, or without a right
    or a wrong caption, are left out and counted."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        path = needed(data_dir / source["path"], "file")
        self._table = table = NamedTable(path)
        self._image = table.image_column(source["image_column"])
        self._right, *others = table.columns("the right captions", RIGHT, source["caption_column"])
        if others:
            raise UserError(
                f"{path}: several columns are called as the right captions are ({', '.join([self._right, *others])}); "
                "name one in source.caption_column"
            )
        self._wrong = table.columns("wrong captions", WRONG, source["wrong_column"])
        self._named = None  # reads an image by its name, where the table has names
        if not table.holds_bytes(self._image):
            folder = path.parent if source["images"] is None else data_dir / source["images"]
            self._named = named_images(needed(folder), follow=True)

    def raw_samples(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        for number, row, complaint in self._table.rows([self._image, self._right, *self._wrong]):
            key, cell, name = f"{number:08d}", row.get(self._image), self._table.path.name
            read = partial(read_image, cell)
            if self._named is not None:
                name = listed_name(str(cell or ""))
                read = partial(self._named, name)
            columns = [self._right], self._wrong
            listed = [[text for column in each for text in texts_of(row.get(column))] for each in columns]
            right, wrong = ([text for text in texts if has_piece(clean_caption(text))] for texts in listed)
            if problem := complaint or _problem(right, wrong):
                skipped.add(problem, key, self._table.path.name)
            elif (image := counted(read, skipped, key, name)) is not None:
                if self._named is None:  # the same image has the same name in all sets
                    name = hashlib.blake2b(image[0], digest_size=8).hexdigest()
                skipped.captions += sum(map(len, listed)) - len(right) - len(wrong)
                shown = name.encode("utf-8", "replace").decode()
                yield ChoiceSample(key, *image, options=(*right, *wrong), group="all", id=str(number), image_name=shown)


def _problem(right: list[str], wrong: list[str]) -> str:
    if len(right) != 1:
        return "not one right caption"
    return "" if wrong else "no wrong caption"


open_source = ChoiceTable  # see mdc.data.sources.source
