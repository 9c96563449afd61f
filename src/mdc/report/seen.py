"""Test images that the runs of a table or figure were trained on: how many, in words."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mdc.plan.jobs.shown import ArtefactJob, Seen
from mdc.report.manifests import Manifests, data_of


@dataclass(frozen=True)
class Counted:
    """``count`` of ``images`` of a test set were trained on."""

    entry: Seen
    count: int
    images: int


def counted(job: ArtefactJob, manifests: Manifests) -> list[Counted]:
    """The test sets of ``job`` of which some images were trained on, by corpus. Errors as of :func:`data_of`."""
    counts = []
    for entry in job.seen:
        overlap = data_of(job, manifests, entry.job)
        images = min(overlap["images"], entry.images or overlap["images"])
        count = sum(row["number"] < images for row in overlap["seen"])
        counts.append(Counted(entry, count, images))
    return [one for one in counts if one.count]


def sentences(job: ArtefactJob, manifests: Manifests) -> list[str]:
    """A sentence for each test set of which images were trained on."""
    by_test: dict[tuple[str, int, int], list[str]] = {}
    for one in counted(job, manifests):
        by_test.setdefault((one.entry.test, one.count, one.images), []).append(one.entry.training)
    return [
        f"{count} of {images} test images of {test} were trained on ({', '.join(dict.fromkeys(corpora))})."
        for (test, count, images), corpora in by_test.items()
    ]


def unknown(job: ArtefactJob) -> list[str]:
    """A note on models of which it is not known; empty without any."""
    labels = ", ".join(job.unknown)
    return [f"Test images in the training data of models of others: unknown ({labels})."] if labels else []


def mark(counts: Iterable[Counted], systems: Collection[str], columns: Collection[str]) -> str:
    """The test images of ``columns`` that one of ``systems`` was trained on: ``Pets 90 of 111``; of several corpora the most."""
    most = {
        one.entry.test: one
        for one in sorted(counts, key=lambda one: one.count)
        if not set(systems).isdisjoint(one.entry.systems)
        and not (one.entry.columns and set(columns).isdisjoint(one.entry.columns))
    }
    return ", ".join(f"{test} {one.count} of {one.images}" for test, one in most.items())
