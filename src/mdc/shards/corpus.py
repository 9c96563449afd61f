"""Corpora on disk: captioned images as shards with an ``index.json`` that tells what their captions are like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mdc.formats.samples import RawSample
from mdc.records import write_json
from mdc.shards.caption_statistics import UNIT, CaptionStatistics
from mdc.shards.index import INDEX
from mdc.shards.writer import canonical, write_splits
from mdc.sources.source import Source
from mdc.text import CONTEXT_LENGTH

_DRAWN = 25_600  # samples drawn for a duplicate share, in batches: at least 8 of them


def write_corpus(
    name: str,
    source: Source[RawSample],
    out_dir: str | Path,
    *,
    samples_per_shard: int = 4000,
    max_skipped: float = 0.05,
    context_length: int = CONTEXT_LENGTH,
    splits: Sequence[str] = ("train", "val"),
) -> dict[str, Any]:
    """Write a corpus into ``out_dir`` and return its index (also in ``out_dir/index.json``).

    The index lists the shards of each split (samples, bytes, sha256), the lengths of captions in CLIP pieces (SOT and
    EOT not counted; ``truncated_share`` is what ``context_length`` cuts), the share of samples in a random training
    batch whose caption stands there twice, for batches of 16, 32, 64, …, every CLIP piece that occurs (``pieces``), and
    those that training sees: of ``train`` alone, and before the cut (``train_pieces``). UserError if ``train`` is empty,
    keys repeat within a split, or more than ``max_skipped`` of the samples had to be left out. What was left out stands in
    ``skipped.jsonl``, one sample a line.
    """
    statistics = {split: CaptionStatistics(context_length) for split in splits}

    def files(split: str, sample: RawSample) -> list[tuple[str, bytes]]:
        statistics[split].add(sample.captions)
        record: dict[str, Any] = {"captions": list(sample.captions)}
        if sample.truth is not None:
            record["truth"] = sample.truth
        # webdataset users read the text; our loader reads the record
        return [("json", canonical(record)), ("txt", sample.captions[0].encode("utf-8", errors="replace"))]

    index: dict[str, Any] = {"kind": "corpus", "name": name, "source": source.config, **source.facts}
    streams = {split: partial(source.samples, split) for split in splits}
    index |= write_splits(name, streams, files, Path(out_dir), samples_per_shard, max_skipped)
    train = statistics["train"]
    captions = train.captions_of_samples()
    batches = [2**k for k in range(4, 17) if 2**k <= len(captions)] or [len(captions)]
    index["captions"] = {
        "unit": UNIT,
        "per_split": {split: found.summary() for split, found in statistics.items()},
        "duplicate_share": {str(batch): duplicate_share(captions, batch, seed=0) for batch in batches},
    }
    index["train_pieces"] = sorted(train.seen)
    index["pieces"] = sorted(set().union(*(found.pieces for found in statistics.values())))
    write_json(Path(out_dir) / INDEX, index)
    return index


def duplicate_share(captions: Sequence[Sequence[Any] | np.ndarray], batch: int, seed: int) -> float:
    """Expected share of samples in a random batch whose caption occurs at least twice in that batch.

    ``captions``: for each sample the captions (or their hashes) of which one is shown. Estimated over batches
    drawn without replacement, as an epoch draws them; the seed decides the draws. 0 where there is no pair.
    """
    if batch < 2:
        return 0.0
    rng = np.random.Generator(np.random.Philox(key=seed))
    twice = 0
    draws = max(8, _DRAWN // batch)
    for _ in range(draws):
        rows = rng.choice(len(captions), size=batch, replace=False)
        picks = rng.random(batch)
        shown = Counter(captions[row][int(pick * len(captions[row]))] for row, pick in zip(rows, picks, strict=True))
        twice += sum(count for count in shown.values() if count > 1)
    return twice / (draws * batch)
