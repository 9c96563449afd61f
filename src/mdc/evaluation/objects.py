"""What objects the images of a captioning set have, as MSCOCO's instances file and their references tell (for CHAIR)."""

from __future__ import annotations

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
    """``truths``: of each image the categories that it has, None where nothing is known. ``told``: for the record."""

    truths: Sequence[frozenset[str]] | None
    told: dict[str, Any] | None

    def of(self, place: int, caption: str) -> list[int] | None:
        """[objects that a tokenised caption names, those of them that its image does not have]."""
        if self.truths is None:
            return None
        named = mentioned(caption)
        return [len(named), sum(one not in self.truths[place] for one in named)]


def objects(instances: str | None, images: Captioned, references: Mapping[str, Sequence[str]]) -> Objects:
    """The objects of ``images``; ``references`` {image: tokenised captions} add what they name, as the authors do.

    Images are found by the number at the end of their name, as COCO_val2014_000000391895 has it. Where the file is missing, or
    an image of ours in it, nothing is measured, and the note says why. UserError for a file that holds no instances.
    """
    if instances is None:
        return Objects(None, None)
    path = data_folder() / instances
    if not path.is_file():
        return Objects(None, {"note": f"not available: {_shown(path)} is not there; {_HOW}"})
    found = read_instances(path)
    numbers = [_number(key) for key in images.keys]
    missing = [key for key, number in zip(images.keys, numbers, strict=True) if number not in found]
    if missing:
        note = f"not available: {_shown(path)} lacks {len(missing)} of {len(images)} images, {missing[0]} for one"
        return Objects(None, {"note": note})
    truths = [
        frozenset(found[number] if number is not None else ()).union(*(mentioned(one) for one in references[key]))
        for key, number in zip(images.keys, numbers, strict=True)
    ]
    return Objects(truths, {"file": path.name, "sha256": sha256_file(path), "note": ""})


def _shown(path: Path) -> str:
    return f"MSCOCO's {path.name} ({path})"


def _number(key: str) -> int | None:
    digits = re.search(r"(\d+)$", Path(key).stem)
    return int(digits[1]) if digits else None
