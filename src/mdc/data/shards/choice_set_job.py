"""The job ``mdc choice-set``: images with one right caption and wrong ones as webdataset shards with an ``index.json``."""

from collections import Counter
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import ChoiceSample
from mdc.data.shards.index import INDEX
from mdc.data.shards.set_job import note, sharding, source_of
from mdc.data.shards.writer import canonical, write_splits
from mdc.data.sources.source import Source, open_choices
from mdc.models.text import clip_pieces
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call
from mdc.plan.records import write_json

SPLIT = "test"  # a choice set is only evaluated


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.ChoiceSetJob`."""
    write_choices(call.job.name, open_choices(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)


def write_choices(
    name: str,
    source: Source[ChoiceSample],
    out_dir: str | Path,
    *,
    samples_per_shard: int = 4000,
    max_skipped: float = 0.05,
) -> dict[str, Any]:
    """Write a choice set into ``out_dir`` and return its index (also in ``out_dir/index.json``); errors as for corpora.

    A sample's record has "options", "answer" (0, the first), "group", "id", "image" (its image's name in all sets that show it),
    "box" if the image is cropped, and "truth" if it is known.
    The index counts samples by their number of options ("options") and by group ("groups"), and those with an option that has
    the right caption's BPE tokens ("same_as_answer": "any", and by the option's place), which no model can distinguish.
    ``chance`` is the accuracy of guessing: the mean of 1 / number of options.
    """
    sizes: Counter[int] = Counter()
    groups: Counter[str] = Counter()
    same: Counter[str] = Counter()
    pieces: set[int] = set()

    def files(split: str, sample: ChoiceSample) -> list[tuple[str, bytes]]:
        sizes[len(sample.options)] += 1
        groups[sample.group] += 1
        right, *wrong = (clip_pieces(text) for text in sample.options)
        pieces.update(piece for option in (right, *wrong) for piece in option)
        same.update(str(place) for place, option in enumerate(wrong, start=1) if option == right)
        same["any"] += right in wrong
        record: dict[str, Any] = {
            "options": list(sample.options),
            "answer": 0,
            "group": sample.group,
            "id": sample.id,
            "image": sample.image_name or sample.key,
        }
        if sample.truth is not None:
            record["truth"] = sample.truth
        if sample.box is not None:
            record["box"] = list(sample.box)
        return [("json", canonical(record))]

    index: dict[str, Any] = {"kind": "choices", "name": name, "source": source.config, **source.facts}
    index |= write_splits(name, source.samples, [SPLIT], files, Path(out_dir), samples_per_shard, max_skipped)
    total = sum(sizes.values())
    index["options"] = {str(size): sizes[size] for size in sorted(sizes)}
    index["chance"] = sum(count / size for size, count in sizes.items()) / total
    index["groups"] = dict(sorted(groups.items()))
    index["pieces"] = sorted(pieces)
    index["same_as_answer"] = dict(sorted(same.items()))
    if shortcuts := source.shortcuts():
        index["shortcuts"] = [shortcut.row() for shortcut in shortcuts]
    write_json(Path(out_dir) / INDEX, index)
    return index
