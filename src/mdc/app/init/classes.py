"""What a folder of classes holds: which classes, and how many images. No image is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mdc.data.formats.samples import IMAGE_ENDINGS
from mdc.plan.records import UserError

_TEST = ("test", "val")  # what the folder of test images is called; the first that is there


@dataclass(frozen=True)
class Classes:
    """``test_folder``: test or val. ``train`` and ``test`` count images."""

    names: list[str]
    test_folder: str
    train: int
    test: int


def look_at_classes(folder: Path) -> Classes:
    """The classes of ``folder``, as ``train/<class>/x.jpg`` and ``test/<class>/x.jpg``.

    UserError if a split is missing, has no images of a class that the other has, or if there are fewer than two classes.
    """
    test = next((name for name in _TEST if (folder / name).is_dir()), _TEST[0])
    counts = {split: _images(folder / split) for split in ("train", test)}
    for split, other in (("train", test), (test, "train")):
        missing = sorted(name for name in counts[other] if not counts[split].get(name))
        if missing:
            raise UserError(f"{folder / split}: holds no images of {', '.join(missing[:5])}, which {other} has")
    names = sorted(counts["train"])
    if len(names) < 2:
        raise UserError(f"{folder / 'train'}: holds one class, {names[0]}; at least two are needed")
    return Classes(names, test, sum(counts["train"].values()), sum(counts[test].values()))


def _images(split: Path) -> dict[str, int]:
    """{class: number of its images}."""
    if not split.is_dir():
        raise UserError(f"{split}: no such folder; a probe has train/CLASS/x.jpg and test/CLASS/x.jpg")
    classes = [path for path in split.iterdir() if path.is_dir() and not path.name.startswith(".")]
    if not classes:
        raise UserError(f"{split}: holds no folder; needed: one for each class, with its images")
    return {path.name: sum(map(_named_as_image, path.iterdir())) for path in classes}


def _named_as_image(path: Path) -> bool:
    return not path.name.startswith(".") and path.suffix.lower().lstrip(".") in IMAGE_ENDINGS
