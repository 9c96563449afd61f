"""The job ``mdc corpus``: a source of captioned images as webdataset shards with an index.

If the corpus's parts are already written, it writes only the index, which refers to their shards: so nested corpora share their
parts. A part of which a corpus takes only the beginning is written by the corpus's own job.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import RawSample, skipped_list
from mdc.data.shards.caption_statistics import UNIT, CaptionStatistics
from mdc.data.shards.index import INDEX
from mdc.data.shards.parts import read_captions, write_part
from mdc.data.shards.set_job import note, sharding, source_of, splits_of
from mdc.data.shards.writer import SKIPPED, NewSet, write_set
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.source import Source, open_corpus
from mdc.models.text import CONTEXT_LENGTH
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call
from mdc.plan.records import read_json, write_json


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.CorpusJob`."""
    source = open_corpus(source_of(call), data_folder())
    more: dict[str, Any] = {
        "context_length": call.job.protocol.context_length,
        "splits": splits_of(source_of(call)),
        "max_skipped": call.job.max_skipped,
    }
    if parts := [path for job, path in call.manifests.items() if job.startswith("data/parts/")]:
        assert isinstance(source, InParts)
        join_parts(call.job.name, source, call.out, parts[0], **more)
    else:
        write_corpus(call.job.name, source, call.out, **more | sharding(call))
    note(call)


def write_corpus(
    name: str,
    source: Source[RawSample],
    out_dir: str | Path,
    *,
    context_length: int = CONTEXT_LENGTH,
    splits: Sequence[str] = ("train", "val"),
    **sharded: Any,
) -> dict[str, Any]:
    """Write a corpus into ``out_dir`` and return its index; errors and ``sharded`` as of ``write_set``."""
    statistics = {split: CaptionStatistics(context_length) for split in splits}

    def record(split: str, sample: RawSample) -> dict[str, Any]:
        statistics[split].add(sample.captions)
        return {"captions": list(sample.captions)}

    return write_set("corpus", name, source, splits, out_dir, record, lambda _: corpus_summary(statistics), **sharded)


def corpus_summary(statistics: Mapping[str, CaptionStatistics]) -> dict[str, Any]:
    """A corpus's own entries of its index.

    The lengths of captions in CLIP tokens (without SOT and EOT; ``truncated_share``: longer than the context), the share of
    samples in a random training batch whose caption is in it at least twice, for batches of 16, 32, 64, …, every CLIP token that
    occurs (``pieces``), and those of truncated training captions (``train_pieces``).
    """
    return {
        "captions": {
            "unit": UNIT,
            "per_split": {split: captions.summary() for split, captions in statistics.items()},
            "duplicate_share": statistics["train"].duplicate_shares(),
        },
        "train_pieces": sorted(statistics["train"].seen),
        "pieces": sorted(set[int]().union(*(captions.pieces for captions in statistics.values()))),
    }


def join_parts(
    name: str,
    source: InParts,
    out_dir: Path,
    parts: Path,
    *,
    max_skipped: float,
    context_length: int,
    splits: Sequence[str],
) -> dict[str, Any]:
    """Write the index of a corpus (also returned) from the index ``parts``; errors as ``write_corpus``."""
    entries = {entry["part"]: entry for entry in read_json(parts)["parts"]}
    prefix = os.path.relpath(parts.parent.resolve(), out_dir.resolve()) + "/"
    new = NewSet(name, out_dir, splits)
    statistics = {split: CaptionStatistics(context_length) for split in splits}
    with skipped_list(out_dir / SKIPPED) as skipped:
        for part in range(source.parts):
            own = source.is_partial(part)
            folder, before = (out_dir, "") if own else (parts.parent, prefix)
            entry = write_part(source, part, splits, out_dir, context_length) if own else entries[part]
            hashes = read_captions(folder, entry, statistics)
            for split, shard in entry["splits"].items():
                offsets = {**shard["offsets"], "file": before + shard["offsets"]["file"]}
                new.add(split, {**shard, "file": before + shard["file"], "offsets": offsets}, hashes[split])
            skipped.captions += entry.get("captions_left_out", 0)
            if "skipped_list" in entry:
                with (folder / entry["skipped_list"]["file"]).open(encoding="utf-8") as lines:
                    skipped.join(lines)
    for pattern in ("captions-*.safetensors", "skipped-*.jsonl"):  # of a part written here; the index has their content
        for path in out_dir.glob(pattern):
            path.unlink()
    index = {"kind": "corpus", "name": name, "source": source.config, **source.facts}
    index |= new.index(skipped, max_skipped) | corpus_summary(statistics)
    write_json(out_dir / INDEX, index)
    return index
