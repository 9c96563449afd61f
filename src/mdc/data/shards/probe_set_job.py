"""The job ``mdc probe-set``: labelled images as webdataset shards with an ``index.json`` that names and counts the classes."""

from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.samples import RawSample
from mdc.data.shards.index import INDEX
from mdc.data.shards.set_job import note, sharding, source_of
from mdc.data.shards.writer import canonical, write_splits
from mdc.data.sources.source import Source, open_probe
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call
from mdc.plan.records import UserError, write_json

SPLITS = ("train", "test")


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.ProbeSetJob`."""
    write_probe(call.job.name, open_probe(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)


def write_probe(
    name: str,
    source: Source[RawSample],
    out_dir: str | Path,
    *,
    samples_per_shard: int = 4000,
    max_skipped: float = 0.05,
) -> dict[str, Any]:
    """Write a probe set into ``out_dir`` and return its index; errors as in ``write_corpus``.

    ``chance`` is the score without the image: the share of the most frequent test class ("single", top-1), or the mean share
    of positives over classes that have one ("multi", mean average precision of constant scores).
    """
    classes, task = source.classes, source.task
    counts = {split: np.zeros(len(classes), dtype=np.int64) for split in SPLITS}

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

    index: dict[str, Any] = {"kind": "probe", "name": name, "source": source.config, **source.facts}
    index |= {"task": task, "classes": classes}
    index |= write_splits(name, source.samples, SPLITS, files, Path(out_dir), samples_per_shard, max_skipped)
    if source.labelled_by_people:
        _check_classes(name, classes, counts)
    shares = counts["test"] / index["splits"]["test"]["samples"]
    if not shares.any():
        raise UserError(f"{name}: no image of split test shows any of the {len(classes)} classes")
    index["chance"] = float(shares.max() if task == "single" else shares[shares > 0].mean())
    index["class_counts"] = {split: of_split.tolist() for split, of_split in counts.items()}
    if shortcuts := source.shortcuts():
        index["shortcuts"] = [shortcut.row() for shortcut in shortcuts]
    write_json(Path(out_dir) / INDEX, index)
    return index


def _check_classes(name: str, classes: list[str], counts: dict[str, np.ndarray]) -> None:
    """UserError if there is only one class, or if a class is missing from a split."""
    present = {split: set(np.flatnonzero(of_split).tolist()) for split, of_split in counts.items()}
    everywhere = set().union(*present.values())
    for split, labels in present.items():
        if missing := sorted(everywhere - labels):
            named = ", ".join(classes[label] for label in missing[:5])
            raise UserError(f"{name}: split {split} has no image of {len(missing)} classes that another has: {named}")
    if len(everywhere) < 2:
        raise UserError(f"{name}: all images are of one class ({classes[min(everywhere)]}); a probe needs two at least")
