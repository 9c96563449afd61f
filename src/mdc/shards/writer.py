"""Corpora and probe sets on disk: tar shards that webdataset can read, described by one ``index.json``.

The same source gives the same bytes, file by file. Shards come first and the index last, so an index never describes
shards that are not there.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mdc.formats.samples import RawSample, Skipped, skipped_list
from mdc.formats.tar import TarWriter, sample_key, tar_members
from mdc.records import UserError, atomic_path, clear_leftovers, sha256_file, write_json
from mdc.shards.caption_statistics import UNIT, CaptionStatistics
from mdc.shards.index import INDEX
from mdc.sources import source as sources
from mdc.sources.source import Source
from mdc.text import CONTEXT_LENGTH

Sample = TypeVar("Sample", bound=RawSample)
SKIPPED = "skipped.jsonl"
_LABELLED_BY_USERS = ("parquet", "class_folder", "builder")  # the labels of other probes are right by construction
_DRAWN = 25_600  # samples drawn for a duplicate share, in batches: at least 8 of them


def write_corpus(
    name: str,
    source: Source,
    out_dir: str | Path,
    data_dir: str | Path,
    *,
    samples_per_shard: int = 4000,
    max_skipped: float = 0.05,
    context_length: int = CONTEXT_LENGTH,
    splits: Sequence[str] = ("train", "val"),
) -> dict[str, Any]:
    """Write a corpus into ``out_dir`` and return its index (also in ``out_dir/index.json``).

    The index lists the shards of each split (samples, bytes, sha256), the lengths of captions in CLIP pieces (SOT and
    EOT not counted; ``truncated_share`` is what ``context_length`` cuts), the share of samples in a random training
    batch whose caption stands there twice, for batches of 16, 32, 64, …, and every CLIP piece that occurs. UserError if
    ``train`` is empty, keys repeat within a split, or more than ``max_skipped`` of the samples had to be left out. What
    was left out stands in ``skipped.jsonl``, one sample a line.
    """
    statistics = {split: CaptionStatistics(context_length) for split in splits}

    def files(split: str, sample: RawSample) -> list[tuple[str, bytes]]:
        statistics[split].add(sample.captions)
        record: dict[str, Any] = {"captions": list(sample.captions)}
        if sample.truth is not None:
            record["truth"] = sample.truth
        # webdataset users read the text; our loader reads the record
        return [("json", canonical(record)), ("txt", sample.captions[0].encode("utf-8", errors="replace"))]

    index: dict[str, Any] = {"kind": "corpus", "name": name, "source": dict(source)}
    streams = {split: partial(sources.iter_corpus, source, split, Path(data_dir)) for split in splits}
    index |= write_splits(name, streams, files, Path(out_dir), samples_per_shard, max_skipped)
    train = statistics["train"]
    captions = train.captions_of_samples()
    batches = [2**k for k in range(4, 17) if 2**k <= len(captions)] or [len(captions)]
    index["captions"] = {
        "unit": UNIT,
        "per_split": {split: found.summary() for split, found in statistics.items()},
        "duplicate_share": {str(batch): duplicate_share(captions, batch, seed=0) for batch in batches},
    }
    index["pieces"] = sorted(set().union(*(found.pieces for found in statistics.values())))
    write_json(Path(out_dir) / INDEX, index)
    return index


def write_probe(
    name: str,
    source: Source,
    out_dir: str | Path,
    data_dir: str | Path,
    *,
    samples_per_shard: int = 4000,
    max_skipped: float = 0.05,
    splits: Sequence[str] = ("train", "test"),
) -> dict[str, Any]:
    """Write a probe set into ``out_dir`` and return its index; errors as in ``write_corpus``.

    ``chance`` is what no image can give: the share of the commonest test class ("single", top-1), or the mean share
    of positives over classes that have one ("multi", mean average precision of constant scores).
    """
    classes = sources.probe_classes(source, Path(data_dir))
    task = sources.probe_task(source)
    counts = {split: np.zeros(len(classes), dtype=np.int64) for split in splits}

    def files(split: str, sample: RawSample) -> list[tuple[str, bytes]]:
        if sample.labels is not None:
            counts[split] += np.asarray(sample.labels)
            record: dict[str, Any] = {"labels": list(sample.labels)}
        else:
            assert sample.label is not None
            counts[split][sample.label] += 1
            record = {"label": sample.label}
        if sample.truth is not None:
            record["truth"] = sample.truth
        return [("json", canonical(record))]

    index: dict[str, Any] = {"kind": "probe", "name": name, "source": dict(source), "task": task, "classes": classes}
    streams = {split: partial(sources.iter_probe, source, split, Path(data_dir)) for split in splits}
    index |= write_splits(name, streams, files, Path(out_dir), samples_per_shard, max_skipped)
    if source["kind"] in _LABELLED_BY_USERS:
        _labels_can_be_learnt(name, classes, counts)
    last = splits[-1]
    total = index["splits"][last]["samples"]
    shares = counts[last] / total
    if not shares.any():
        raise UserError(f"{name}: no image of split {last} shows any of the {len(classes)} classes")
    index["chance"] = float(shares.max() if task == "single" else shares[shares > 0].mean())
    index["class_counts"] = {split: found.tolist() for split, found in counts.items()}
    write_json(Path(out_dir) / INDEX, index)
    return index


def _labels_can_be_learnt(name: str, classes: list[str], counts: dict[str, np.ndarray]) -> None:
    """UserError if there is one class only, or if a class occurs in one split and not in another."""
    present = {split: set(np.flatnonzero(found).tolist()) for split, found in counts.items()}
    everywhere = set().union(*present.values())
    for split, found in present.items():
        if missing := sorted(everywhere - found):
            named = ", ".join(classes[label] for label in missing[:5])
            raise UserError(f"{name}: split {split} has no image of {len(missing)} classes that another has: {named}")
    if len(everywhere) < 2:
        raise UserError(f"{name}: all images are of one class ({classes[min(everywhere)]}); a probe needs two at least")


def canonical(record: dict[str, Any]) -> bytes:
    """A sample's record as it stands in a shard: JSON with sorted keys and no spaces."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def write_splits(
    name: str,
    streams: Mapping[str, Callable[[Skipped], Iterator[Sample]]],
    files: Callable[[str, Sample], list[tuple[str, bytes]]],
    out_dir: Path,
    samples_per_shard: int,
    max_skipped: float,
) -> dict[str, Any]:
    """Write the shards of all splits and remove older ones; returns "splits", "skipped" and its list of an index.

    ``files`` gives what stands beside the image, as (extension, content).
    """
    clear_leftovers(out_dir)
    (out_dir / INDEX).unlink(missing_ok=True)  # from here on the old index would describe other shards
    (out_dir / SKIPPED).unlink(missing_ok=True)
    with skipped_list(out_dir / SKIPPED) as skipped:
        splits = _each_split(name, streams, files, out_dir, samples_per_shard, skipped)
    left_out, kept = sum(skipped.counts.values()), sum(split["samples"] for split in splits.values())
    if left_out > max_skipped * (left_out + kept):
        raise UserError(
            f"{name}: {left_out} of {left_out + kept} samples had to be left out, max_skipped allows a share of "
            f"{max_skipped}; {skipped}; all of them are listed in {out_dir / SKIPPED}"
        )
    for split, there in splits.items():
        if not there["samples"] and split in ("train", "test"):
            why = f"{skipped}" if left_out else "none was left out"
            raise UserError(f"{name}: split {split} has no samples ({why}); look at its source's splits")
    current = {shard["file"] for split in splits.values() for shard in split["shards"]}
    for path in out_dir.glob("*.tar"):
        if path.name not in current:
            path.unlink()
    found: dict[str, Any] = {"splits": splits, "skipped": dict(skipped.counts)}
    if left_out:
        listed = out_dir / SKIPPED
        found["skipped_list"] = {"file": SKIPPED, "bytes": listed.stat().st_size, "sha256": sha256_file(listed)}
    return found


def _each_split(
    name: str,
    streams: Mapping[str, Callable[[Skipped], Iterator[Sample]]],
    files: Callable[[str, Sample], list[tuple[str, bytes]]],
    out_dir: Path,
    samples_per_shard: int,
    skipped: Skipped,
) -> dict[str, Any]:
    splits: dict[str, Any] = {}
    for split, stream in streams.items():
        hashes = array("Q")
        skipped.split = split
        shards = list(_write_shards(split, stream(skipped), files, out_dir, samples_per_shard, hashes))
        samples, size = sum(shard["samples"] for shard in shards), sum(shard["bytes"] for shard in shards)
        splits[split] = {"samples": samples, "bytes": size, "shards": shards}
        _no_key_twice(name, split, hashes, [out_dir / shard["file"] for shard in shards])
    return splits


def _no_key_twice(name: str, split: str, hashes: array[int], shards: list[Path]) -> None:
    if not hashes:
        return
    found, counts = np.unique(np.frombuffer(hashes, dtype=np.uint64), return_counts=True)
    repeated = set(found[counts > 1].tolist())
    if not repeated:
        return
    keys = (sample_key(member.name) for path in shards for member in tar_members(path))
    example = next(key for key in keys if _key_hash(key) in repeated)
    raise UserError(
        f"{name}, split {split}: {len(repeated)} keys repeat, the first is {example!r}; "
        "each sample needs a key of its own (for parquet and tables, see key_column)"
    )


def _key_hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())


def _write_shards(
    split: str,
    samples: Iterator[Sample],
    files: Callable[[str, Sample], list[tuple[str, bytes]]],
    out_dir: Path,
    samples_per_shard: int,
    hashes: array[int],
) -> Iterator[dict[str, Any]]:
    """One description a shard; ``hashes`` takes 64 bits of every key's hash."""
    from tqdm import tqdm

    progress = tqdm(samples, desc=f"{out_dir.name} {split}", unit=" samples", disable=None, leave=False)
    rest: Iterator[Sample] = iter(progress)
    number = 0
    while (first := next(rest, None)) is not None:
        path = out_dir / f"{split}-{number:05d}.tar"
        count = 0
        with atomic_path(path) as temporary:
            with temporary.open("wb") as file:
                writer = TarWriter(file)
                sample: Sample | None = first
                while sample is not None:
                    writer.add(f"{sample.key}.{sample.extension}", sample.image)
                    for extension, content in files(split, sample):
                        writer.add(f"{sample.key}.{extension}", content)
                    hashes.append(_key_hash(sample.key))
                    count += 1
                    sample = next(rest, None) if count < samples_per_shard else None
                writer.close()
            description = {"bytes": temporary.stat().st_size, "sha256": sha256_file(temporary)}
        yield {"file": path.name, "samples": count, **description}
        number += 1


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
