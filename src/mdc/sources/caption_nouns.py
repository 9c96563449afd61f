"""A multi-label probe from captioned images: which of the ``count`` commonest nouns do an image's captions name?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from mdc.formats.samples import RawSample, Skipped
from mdc.records import UserError
from mdc.sources import nouns
from mdc.sources.parquet import captions_of_split, rows

Source = Mapping[str, Any]


def samples(source: Source, split: str, data_dir: Path, skipped: Skipped) -> Iterator[RawSample]:
    """Images of one split with a zero or one for each noun."""
    table = noun_table(source, data_dir)
    theirs = {**source, "splits": {"train": "dev", "test": "test", **source.get("splits", {})}}
    for row in rows(theirs, split, data_dir, skipped):
        yield RawSample(row.key, row.image, row.extension, labels=tuple(nouns.presence(row.captions, table)))


def noun_table(source: Source, data_dir: Path) -> dict[str, tuple[str, ...]]:
    """The nouns, commonest first, each with its surface forms; counted in the split ``vocabulary`` alone."""
    return _cached(json.dumps(dict(source), sort_keys=True), str(data_dir))


@lru_cache(maxsize=4)  # classes and both splits ask for the same table
def _cached(source_json: str, data_dir: str) -> dict[str, tuple[str, ...]]:
    source = json.loads(source_json)
    wanted = source.get("splits", {}).get("vocabulary", "train")
    table = nouns.commonest_nouns(captions_of_split(source, wanted, Path(data_dir)), int(source.get("count", 60)))
    if not table:
        raise UserError(f"{source['path']}: no nouns found in the captions of split {wanted!r}")
    return table
