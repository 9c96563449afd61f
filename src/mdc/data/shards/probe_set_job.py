"""The job ``mdc probe-set``: labelled images as webdataset shards with an ``index.json`` that names and counts the classes."""

from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.samples import RawSample
from mdc.data.shards.set_job import note, sharding, source_of
from mdc.data.shards.writer import write_set
from mdc.data.sources.source import Source, open_probe
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call
from mdc.plan.records import UserError

SPLITS = ("train", "test")


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.ProbeSetJob`."""
    write_probe(call.job.name, open_probe(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)


def write_probe(
    name: str,
    source: Source[RawSample],
    out_dir: str | Path,
    **sharded: Any,
) -> dict[str, Any]:
    """Write a probe set into ``out_dir`` and return its index; errors and ``sharded`` as of ``write_set``.

    ``chance`` is the score without the image: the share of the most frequent test class ("single", top-1), or the mean share
    of positives over classes that have one ("multi", mean average precision of constant scores).
    """
    classes, task = source.classes, source.task
    counts = {split: np.zeros(len(classes), dtype=np.int64) for split in SPLITS}

    def record(split: str, sample: RawSample) -> dict[str, Any]:
        if sample.labels is not None:
            counts[split] += np.asarray(sample.labels)
            return {"labels": list(sample.labels)}
        assert sample.label is not None
        counts[split][sample.label] += 1
        return {"label": sample.label}

    def summary(index: dict[str, Any]) -> dict[str, Any]:
        if source.labelled_by_people:
            _check_classes(name, classes, counts)
        shares = counts["test"] / index["splits"]["test"]["samples"]
        if not shares.any():
            raise UserError(f"{name}: no image of split test shows any of the {len(classes)} classes")
        return {
            "task": task,
            "classes": classes,
            "chance": float(shares.max() if task == "single" else shares[shares > 0].mean()),
            "class_counts": {split: of_split.tolist() for split, of_split in counts.items()},
        }

    return write_set("probe", name, source, SPLITS, out_dir, record, summary, **sharded)


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
