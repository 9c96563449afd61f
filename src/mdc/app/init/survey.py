"""How much a source holds, and what its images are like, as far as a minute's look tells."""

from __future__ import annotations

import io
import time
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from mdc.app.init.find import Corpus
from mdc.data.formats.captions import clean_captions
from mdc.data.formats.folders import inside
from mdc.data.formats.foreign_tar import tar_samples
from mdc.data.formats.parquet_file import open_parquet
from mdc.data.formats.reading import SourceItem, with_images
from mdc.data.formats.samples import LeftOut, Skipped, held_out
from mdc.data.sources.corpora.caption_files import images_within
from mdc.data.sources.corpora.webdataset import Webdataset
from mdc.data.sources.parquet import split_counts, split_files
from mdc.data.sources.source import open_corpus
from mdc.models.text import clip_pieces
from mdc.plan.records import UserError

_OPENED = 48  # images that are opened
_READ = 100  # samples that are read of tars and parquet files, whose captions lie beside their images
_COUNTED = 5000  # captions whose pieces are counted


@dataclass
class Survey:
    """``counts``: of each split the images with a caption; ``about``: estimated from a part. ``names``: of those without a split
    of their own, what decides which are held out. ``captions``: of all images; ``pieces``: of some captions, how many CLIP
    pieces each has. ``sizes``: (width, height) of the images that were opened; ``seconds``: for an image of these when shards
    are made; ``unused``: files that nothing captions."""

    counts: dict[str, int]
    about: bool = False
    names: list[str] = field(default_factory=list)
    captions: int = 0
    pieces: list[int] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0
    left_out: Skipped = field(default_factory=Skipped)
    unused: int = 0

    @property
    def shorter(self) -> int:
        """The shorter side of the image in the middle; 0 if none was opened."""
        return int(median(map(min, self.sizes))) if self.sizes else 0


def survey(root: Path, corpus: Corpus) -> Survey:
    """What ``corpus`` holds. Of tables every row is read and each file is looked for; of tars and parquet files the first
    samples are. Some images are opened.

    UserError if a file is no good, if there is no caption, or if none of the images that were opened can be read.
    """
    from pydantic import TypeAdapter

    from mdc.plan.config.sources import CorpusSource

    complete = TypeAdapter(CorpusSource).validate_python(corpus.source).complete()
    source: Any = open_corpus({**complete, "val_fraction": complete.get("val_fraction") or 0.0}, root)
    found = Survey({})
    whole = corpus.source["kind"] in ("caption_table", "caption_files")
    there = set(map(_normal, images_within(root / corpus.images))) if whole else set()
    folder = (root / corpus.images).resolve()
    samples: list[SourceItem] = []
    named: set[str] = set()
    for split in corpus.splits if not corpus.holds_out else ("train",):
        account = found.left_out
        for one in source.items(split) if whole else islice(source.items(split), _READ):
            named.add(_normal(one.file))
            captions = clean_captions(one.captions)
            if isinstance(one.read, LeftOut):
                account.add(one.read.reason, one.key, one.file, one.read.detail)
            elif whole and _normal(one.file) not in there and not _is_in(folder, one.file):
                account.add("image file is missing", one.key, one.file)
            elif not captions:
                account.add("no caption", one.key, one.file)
            else:
                found.counts[split] = found.counts.get(split, 0) + 1
                found.captions += len(captions)
                found.names += [one.file] if corpus.holds_out else []
                if len(found.pieces) < _COUNTED:
                    found.pieces += [len(clip_pieces(text)) for text in captions]
                samples.append(one)
    found.unused = len(there - named)
    if not samples:
        raise UserError(f"{root / corpus.images}: no image has a caption ({found.left_out or 'it has no samples'})")
    if not whole:
        _extrapolate(found, source, corpus, root, len(samples))
    opened = samples[:: max(1, len(samples) // _OPENED)][:_OPENED]
    _open(found, opened)
    if not found.sizes:
        raise UserError(f"{root / corpus.images}: none of {len(opened)} images can be read ({found.left_out})")
    return found


def _extrapolate(found: Survey, source: Any, corpus: Corpus, root: Path, read: int) -> None:
    """How many samples there are, where the first ones were read alone: by parquet's footers, or by the tars' sizes."""
    of_each = found.captions / read
    counts: dict[str, int] = Counter()
    if isinstance(source, Webdataset):
        for split in {split or "train" for split, _ in source.shards}:
            shards = [path for named, path in source.shards if (named or "train") == split]
            first, size = shards[0], sum(path.stat().st_size for path in shards)
            counts[split] = round(sum(1 for _ in tar_samples(first)) * size / max(1, first.stat().st_size))
            found.about |= len(shards) > 1
    elif source.config["split_column"] is None:
        for split in corpus.splits if not corpus.holds_out else ("train",):
            for path in split_files(source.config, split, root):
                with open_parquet(path) as file:
                    counts[split] += file.metadata.num_rows
    else:
        counts = split_counts(source.config, root)
    found.counts, found.names = {split: counts[split] for split in corpus.splits if counts.get(split)}, []
    found.captions = round(of_each * sum(found.counts.values()))


def _is_in(folder: Path, name: str) -> bool:
    place = inside(folder, name)
    return place is not None and place.exists()


def _normal(name: str) -> str:
    """Two systems may write a name's accents differently."""
    return unicodedata.normalize("NFC", name)


def _open(found: Survey, samples: list[SourceItem]) -> None:
    from PIL import Image

    began, count = time.perf_counter(), 0
    for _, image, _ in with_images(samples, found.left_out, None):
        with Image.open(io.BytesIO(image)) as opened:
            found.sizes.append(opened.size)
        count += 1
    found.seconds = (time.perf_counter() - began) / max(1, count)


def held_out_of(found: Survey, share: float) -> int:
    """How many images the ``share`` holds out: exactly where their names are known."""
    if found.names:
        return sum(held_out(name, share) for name in found.names)
    return round(share * found.counts.get("train", 0))
