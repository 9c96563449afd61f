"""Classes of a folder and their numbers of images. No image is opened."""

from dataclasses import dataclass
from pathlib import Path

from mdc.data.formats.class_layout import SPLITS, class_layout
from mdc.data.formats.folders import is_image_name
from mdc.plan.records import UserError


@dataclass(frozen=True)
class Classes:
    """``train`` and ``test`` count images; ``said``: how they were split, if not by folders."""

    names: list[str]
    train: int
    test: int
    said: str


def look_at_classes(folder: Path) -> Classes:
    """The classes of ``folder``, see :mod:`mdc.data.formats.class_layout`.

    UserError if a split has no images of a class that the other has, or if there are fewer than two classes.
    """
    layout = class_layout(folder, None)
    counts = {
        split: {name: sum(map(is_image_name, layout.files(split, name))) for name in layout.classes} for split in SPLITS
    }
    for split, of_class in counts.items():
        if missing := [name for name, number in of_class.items() if not number]:
            raise UserError(f"{folder}: split {split} contains no images of {', '.join(missing[:5])}")
    if len(layout.classes) < 2:
        raise UserError(f"{folder}: contains one class, {layout.classes[0]}; at least two are needed")
    train, test = (sum(of_class.values()) for of_class in counts.values())
    return Classes(layout.classes, train, test, layout.note)
