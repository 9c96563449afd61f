"""A multi-label probe from captioned images: which of the ``count`` commonest nouns do an image's captions name?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.reading import with_images
from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.formats.split_words import listed
from mdc.data.sources.parquet import captions_of_split, need_known_splits, rows
from mdc.data.sources.probes import nouns
from mdc.data.sources.source import Source
from mdc.plan.records import UserError


class CaptionNouns(Source[RawSample]):
    """Images of one split with a zero or one for each noun; the nouns are counted in the split ``vocabulary`` alone."""

    task = "multi"

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._data_dir = data_dir
        need_known_splits(source, data_dir)
        wanted = listed(source["splits"]["vocabulary"])
        self._nouns = nouns.commonest_nouns(captions_of_split(source, wanted, data_dir), source["count"])
        if not self._nouns:
            raise UserError(f"{source['path']}: no nouns found in the captions of split {', '.join(wanted)}")
        self.classes = list(self._nouns)

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        found = partial(rows, self.config, split, self._data_dir, captions=True)
        for row, image, extension in with_images(found, skipped, self.image_size):
            yield RawSample(row.key, image, extension, labels=tuple(nouns.presence(row.captions, self._nouns)))


def open_source(source: Mapping[str, Any], data_dir: Path) -> CaptionNouns:
    """See mdc.data.sources.source."""
    return CaptionNouns(source, data_dir)
