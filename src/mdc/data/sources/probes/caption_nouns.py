"""A multi-label probe from captioned images: which of the ``count`` most frequent nouns occur in an image's captions."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.reading import SourceItem
from mdc.data.formats.split_words import listed
from mdc.data.sources.cleaned import LabelledImages
from mdc.data.sources.parquet import captions_of_file, parquet_files, rows, split_counts
from mdc.data.sources.probes import nouns
from mdc.plan.records import UserError


class CaptionNouns(LabelledImages):
    """Images of one split with a zero or one for each noun; the nouns are counted only in the split ``vocabulary``."""

    task = "multi"

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        split_counts(source, data_dir)
        wanted = listed(source["splits"]["vocabulary"])
        columns = source["caption_column"], source["split_column"], wanted
        captions = [texts for path in parquet_files(source, data_dir) for texts in captions_of_file(path, *columns)]
        self._nouns = nouns.commonest_nouns(captions, source["count"])
        if not self._nouns:
            raise UserError(f"{source['path']}: no nouns found in the captions of split {', '.join(wanted)}")
        self.classes = list(self._nouns)

    def items(self, split: str) -> Iterator[SourceItem]:
        for row in rows(self.config, split, self.data_dir, captions=True):
            yield row._replace(label=tuple(nouns.presence(row.captions, self._nouns)))


open_source = CaptionNouns  # see mdc.data.sources.source
