"""Test images that the runs of a table or figure were trained on: how many, in words."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from mdc.plan.jobs.shown import ArtefactJob, Seen
from mdc.plan.records import read_json
from mdc.plan.verbs import verb_of
from mdc.report.manifests import Manifests

#: verb → its file of items and, there, the columns of an item's key, of its set, and of its image
_ITEMS = {
    "probe": ("items.parquet", "item", "probe", "item"),
    "score-classes": ("items.parquet", "item", "probe", "item"),
    "score-choices": ("scores.parquet", "item", "set", "image"),
    "measure-captions": ("metrics.parquet", "image", None, "image"),
    "score-positions": ("tokens.parquet", "key", None, "key"),
}


@dataclass(frozen=True)
class Counted:
    """``count`` of ``images`` of a test set were trained on."""

    entry: Seen
    count: int
    images: int


def counted(job: ArtefactJob, manifests: Manifests) -> list[Counted]:
    """The test sets of ``job`` of which some images were trained on, by corpus."""
    counts = []
    for entry in job.seen:
        if seen := {row["key"] for row in read_json(manifests[entry.job])["seen"]}:
            tested: dict[str, str] = {}
            for record in entry.records:
                tested |= _images(manifests, record, entry.name)
            trained_on = {tested[key] for key in seen & tested.keys()}
            counts.append(Counted(entry, len(trained_on), len({*tested.values()})))
    return [count for count in counts if count.count]


def _images(manifests: Manifests, name: str, test: str) -> dict[str, str]:
    """{key of an item of the set ``test`` that the job ``name`` measured: its image}."""
    from pyarrow.parquet import ParquetFile

    if verb_of(name) == "score-pairs":
        return {key: key for key in read_json(manifests[name])["keys"]}
    file, key, of_set, image = _ITEMS[verb_of(name)]
    columns = [*dict.fromkeys(column for column in (key, of_set, image) if column)]
    rows = ParquetFile(Path(manifests[name]).with_name(file)).read(columns=columns).to_pylist()
    return {row[key]: row[image] for row in rows if of_set is None or row[of_set] == test}


def sentences(job: ArtefactJob, manifests: Manifests) -> list[str]:
    """A sentence for each test set of which images were trained on."""
    by_test: dict[tuple[str, int, int], list[str]] = {}
    for count in counted(job, manifests):
        by_test.setdefault((count.entry.test, count.count, count.images), []).append(count.entry.training)
    return [
        f"{count} of {images} test images of {test} were trained on ({', '.join(dict.fromkeys(corpora))})."
        for (test, count, images), corpora in by_test.items()
    ]


def unknown(job: ArtefactJob) -> list[str]:
    """A note on models of which it is not known; empty without any."""
    labels = ", ".join(job.unknown)
    return [f"Test images in the training data of external models: unknown ({labels})."] if labels else []


def mark(counts: Iterable[Counted], systems: Iterable[str], columns: Collection[str]) -> str:
    """The test images of ``columns`` that one of ``systems`` was trained on: ``Pets 90 of 111``; of several corpora the most."""
    keys = {*systems}
    most = {
        count.entry.test: count
        for count in sorted(counts, key=lambda count: count.count)
        if not keys.isdisjoint(count.entry.systems)
        and not (count.entry.columns and set(columns).isdisjoint(count.entry.columns))
    }
    return ", ".join(f"{test} {count.count} of {count.images}" for test, count in most.items())
