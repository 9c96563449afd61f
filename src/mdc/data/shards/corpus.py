"""Corpora on disk: captioned images as shards with an ``index.json`` that has statistics of their captions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import RawSample
from mdc.data.shards.caption_statistics import UNIT, CaptionStatistics
from mdc.data.shards.index import INDEX
from mdc.data.shards.writer import canonical, write_splits
from mdc.data.sources.source import Source
from mdc.models.text import CONTEXT_LENGTH
from mdc.plan.records import write_json


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
    """Write a corpus into ``out_dir`` and return its index (also in ``out_dir/index.json``), see ``corpus_index``.

    UserError if ``train`` is empty, keys repeat within a split, or more than ``max_skipped`` of the samples are left
    out, which are listed in ``skipped.jsonl``, one per line.
    """
    statistics = {split: CaptionStatistics(context_length) for split in splits}

    def files(split: str, sample: RawSample) -> list[tuple[str, bytes]]:
        statistics[split].add(sample.captions)
        return beside_image(sample)

    shards = write_splits(name, source.samples, splits, files, Path(out_dir), samples_per_shard, max_skipped)
    index = corpus_index(name, source, shards, statistics)
    write_json(Path(out_dir) / INDEX, index)
    return index


def beside_image(sample: RawSample) -> list[tuple[str, bytes]]:
    """A corpus sample's files besides its image, as (extension, content)."""
    record: dict[str, Any] = {"captions": list(sample.captions)}
    if sample.truth is not None:
        record["truth"] = sample.truth
    # webdataset users read the text; our loader reads the record
    return [("json", canonical(record)), ("txt", sample.captions[0].encode("utf-8", errors="replace"))]


def corpus_index(
    name: str, source: Source[RawSample], shards: Mapping[str, Any], statistics: Mapping[str, CaptionStatistics]
) -> dict[str, Any]:
    """The index of a corpus; ``shards`` has its entries ``splits``, ``skipped`` and ``skipped_list``.

    It lists the shards of each split (samples, bytes, sha256), the lengths of captions in CLIP tokens (without SOT and EOT;
    ``truncated_share``: longer than the context), the share of samples in a random training batch whose caption is in it at
    least twice, for batches of 16, 32, 64, …, every CLIP token that occurs (``pieces``), and those of truncated training
    captions (``train_pieces``).
    """
    return {
        "kind": "corpus",
        "name": name,
        "source": source.config,
        **source.facts,
        **shards,
        "captions": {
            "unit": UNIT,
            "per_split": {split: captions.summary() for split, captions in statistics.items()},
            "duplicate_share": statistics["train"].duplicate_shares(),
        },
        "train_pieces": sorted(statistics["train"].seen),
        "pieces": sorted(set[int]().union(*(captions.pieces for captions in statistics.values()))),
    }
