"""The job ``mdc choice-set``: images with one right caption and wrong ones as webdataset shards with an ``index.json``."""

from collections import Counter
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import ChoiceSample
from mdc.data.shards.set_job import note, sharding, source_of
from mdc.data.shards.writer import write_set
from mdc.data.sources.source import Source, open_choices
from mdc.models.text import clip_pieces
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call

SPLIT = "test"  # a choice set is only evaluated


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.ChoiceSetJob`."""
    write_choices(call.job.name, open_choices(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)


def write_choices(
    name: str,
    source: Source[ChoiceSample],
    out_dir: str | Path,
    **sharded: Any,
) -> dict[str, Any]:
    """Write a choice set into ``out_dir`` and return its index; errors and ``sharded`` as of ``write_set``.

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

    def record(split: str, sample: ChoiceSample) -> dict[str, Any]:
        sizes[len(sample.options)] += 1
        groups[sample.group] += 1
        right, *wrong = (clip_pieces(text) for text in sample.options)
        pieces.update(piece for option in (right, *wrong) for piece in option)
        same.update(str(place) for place, option in enumerate(wrong, start=1) if option == right)
        same["any"] += right in wrong
        return {
            "options": list(sample.options),
            "answer": 0,
            "group": sample.group,
            "id": sample.id,
            "image": sample.image_name or sample.key,
            **({} if sample.box is None else {"box": list(sample.box)}),
        }

    def summary(index: dict[str, Any]) -> dict[str, Any]:
        return {
            "options": {str(size): sizes[size] for size in sorted(sizes)},
            "chance": sum(count / size for size, count in sizes.items()) / sum(sizes.values()),
            "groups": dict(groups),
            "pieces": sorted(pieces),
            "same_as_answer": dict(same),
        }

    return write_set("choices", name, source, [SPLIT], out_dir, record, summary, **sharded)
