"""Objects in the images of a captioning set, from MSCOCO's instances file and the references (for CHAIR)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.metrics.chair import mentioned, read_instances
from mdc.plan.data_folder import data_folder
from mdc.plan.records import sha256_file

_HOW = (
    "bring it from http://images.cocodataset.org/annotations/annotations_trainval2014.zip (or name the file that is there under "
    "table3.datasets)"
)


@dataclass(frozen=True)
class Objects:
    """``truths``: the categories of each image, None if unknown. ``metadata``: for the record."""

    truths: Sequence[frozenset[str]] | None
    metadata: dict[str, Any] | None

    def of(self, place: int, caption: str) -> list[int] | None:
        """[objects that a tokenised caption names, those of them that are not in its image]."""
        if self.truths is None:
            return None
        named = mentioned(caption)
        return [len(named), sum(name not in self.truths[place] for name in named)]


def objects(instances: str | None, images: Captioned, references: Mapping[str, Sequence[str]]) -> Objects:
    """The objects of ``images``; ``references`` {image: tokenised captions} add what they name, as the authors do.

    Images are identified by the number at the end of their name, as in COCO_val2014_000000391895. If the file, or an image in
    it, is missing, nothing is measured, and the note says why. UserError for a file without instances.
    """
    if instances is None:
        return Objects(None, None)
    path = data_folder() / instances
    if not path.is_file():
        return Objects(None, {"note": f"not available: {_shown(path)} is not there; {_HOW}"})
    by_image = read_instances(path)
    numbers = [_number(key) for key in images.keys]
    missing = [key for key, number in zip(images.keys, numbers, strict=True) if number not in by_image]
    if missing:
        note = f"not available: {_shown(path)} lacks {len(missing)} of {len(images)} images, {missing[0]} for one"
        return Objects(None, {"note": note})
    truths = [
        frozenset(by_image[number] if number is not None else ()).union(*(mentioned(text) for text in references[key]))
        for key, number in zip(images.keys, numbers, strict=True)
    ]
    return Objects(truths, {"file": path.name, "sha256": sha256_file(path), "note": ""})


def _shown(path: Path) -> str:
    return f"MSCOCO's {path.name} ({path})"


def _number(key: str) -> int | None:
    digits = re.search(r"(\d+)$", Path(key).stem)
    return int(digits[1]) if digits else None
