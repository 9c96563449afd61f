"""Labelled images in folders. Classes are numbered in the order of the folders' names.

train/CLASS, test/CLASS        the split's folder first, by any usual word (Train, validation, …)
    CLASS/train, CLASS/test        the class first
    CLASS, or train/CLASS alone    no splits: the test images are chosen by a hash of their names; where that leaves a split
                                   without an image of a class, the one whose hash is nearest to the threshold moves there

Folders within a class belong to it, as for torchvision's ImageFolder.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import is_image_name
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import LeftOut, distance, held_out, read_file
from mdc.data.formats.split_words import SplitWords
from mdc.data.sources.cleaned import LabelledImages
from mdc.plan.data_folder import Links, is_clutter, walk
from mdc.plan.records import UserError

SPLITS = ("train", "test")
_TEST_SHARE = 0.2  # of images without splits


@dataclass(frozen=True)
class ClassLayout:
    """``folders``: {split: {class: folders of its images}}, in the order of the classes' names. ``drawn``: both splits share
    their folders, and are split by a hash of the names. ``note``: how the splits differ from the folders' names, or "".
    ``within``: {folder of a class: {folder in it: names of its files}}."""

    root: Path
    folders: Mapping[str, Mapping[str, Sequence[Path]]]
    drawn: bool = False
    note: str = ""
    within: Mapping[Path, Mapping[Path, Sequence[str]]] = field(default_factory=dict)

    @property
    def classes(self) -> list[str]:
        return list(self.folders["train"])

    def files(self, split: str, name: str) -> list[Path]:
        """The files of a class in a split, in the order of their names."""
        files = [path for folder in self.folders[split][name] for path in sorted(self._below(folder))]
        if not self.drawn:
            return files
        names = {path: path.relative_to(self.root).as_posix() for path in files}
        test = {path for path, name in names.items() if held_out(name, _TEST_SHARE)}
        images = set(filter(is_image_name, files))
        if images and not (images & test and images - test):
            test ^= {min(images, key=lambda path: distance(names[path], _TEST_SHARE))}
        return [path for path in files if (path in test) == (split == "test")]

    def images(self, name: str) -> int:
        """The number of images of a class in all splits."""
        folders = {folder for of in self.folders.values() for folder in of[name]}
        return sum(is_image_name(path) for folder in folders for path in self._below(folder))

    def _below(self, folder: Path) -> Iterator[Path]:
        return (place / name for place, names in self.within[folder].items() for name in names)


def class_layout(root: Path, splits: Mapping[str, str] | None, links: Links | None) -> ClassLayout:
    """The layout of ``root``; ``splits``: the folder of each split, None: they are detected; ``links`` as in ``walk``.

    Classes without images are left out. UserError if there is no class, if classes of one split are missing in another, if a
    folder is neither split nor class, or, without splits, if a class has one image.
    """
    layout = _detected(root, splits)
    within: dict[Path, dict[Path, list[str]]]
    within = {folder: {} for of in layout.folders.values() for folders in of.values() for folder in folders}
    tops = [root] if splits is None else [root / splits[split] for split in SPLITS]
    for place, names in walk(tops if links is not None else list(within), links, is_image_name):
        if (folder := next((above for above in (place, *place.parents) if above in within), None)) is not None:
            within[folder][place] = names
    layout = replace(layout, within=within)
    counts = {name: layout.images(name) for name in layout.classes}
    if layout.drawn and (single := [name for name, count in counts.items() if count == 1]):
        raise UserError(
            f"{root}: a class needs two images, one to train on and one to test on; with one image: "
            f"{', '.join(single[:5])} ({len(single)} of {len(counts)} classes){links.remark if links else ''}"
        )
    empty = {name for name, count in counts.items() if not count}
    if not empty or len(empty) == len(layout.classes):
        return layout
    folders = {split: {name: of[name] for name in of if name not in empty} for split, of in layout.folders.items()}
    none = f"no images, so no class: {', '.join(sorted(empty)[:5])}"
    return replace(layout, folders=folders, note="; ".join(filter(None, (layout.note, none))))


def _detected(root: Path, splits: Mapping[str, str] | None) -> ClassLayout:
    if splits is not None:
        return _split_first(root, {split: [root / splits[split]] for split in SPLITS}, "")
    within = {path: _folders(path) for path in _folders(root)}
    if not within:
        raise UserError(f"{root}: contains no folder; needed: train/CLASS/x.jpg and test/CLASS/x.jpg, or CLASS/x.jpg")
    words = SplitWords({})
    named = {path: words.of(path.name) for path in within}
    if "train" in named.values() and len(set(named.values()) - {None}) > 1:
        if strange := [path for path, split in named.items() if split is None]:
            raise UserError(
                f"{strange[0]}: a folder beside those of the splits; move it, or name the splits' folders in source.splits"
            )
        places, note = _two_of(named)
        return _split_first(root, places, note)
    if all(paths and all(words.of(path.name) for path in paths) for paths in within.values()):
        found = [(path, *_two_of({inner: words.of(inner.name) for inner in paths})) for path, paths in within.items()]
        folders = {split: _by_class((path, places[split]) for path, places, _ in found) for split in SPLITS}
        return ClassLayout(root, folders, note=found[0][2])
    if set(named.values()) == {"train"}:  # without a test split
        within = {path: [] for folder in within for path in _folders(folder)}
    classes = _by_class((path, [path]) for path in within)
    share = f"{100 * _TEST_SHARE:g} %"
    note = f"no splits: {share} of the images of each class test, by a hash of their names"
    return ClassLayout(root, dict.fromkeys(SPLITS, classes), drawn=True, note=note)


def _two_of(named: Mapping[Path, str | None]) -> tuple[dict[str, list[Path]], str]:
    """The folders of train and test from those of two or three splits; and a note on it."""
    train, val, test = ([path for path, name in named.items() if name == split] for split in ("train", "val", "test"))
    if val and test:
        return {"train": train + val, "test": test}, f"{val[0].name}: trains too, since nothing is chosen by it"
    note = f"{val[0].name}: tests, since there is no folder test" if val else ""
    return {"train": train, "test": test or val}, note


def _split_first(root: Path, places: Mapping[str, Sequence[Path]], note: str) -> ClassLayout:
    classes: dict[str, dict[str, list[Path]]] = {}
    for split, folders in places.items():
        if missing := next((folder for folder in folders if not folder.is_dir()), None):
            raise UserError(f"{missing}: no such folder; source.splits names a folder for each split")
        classes[split] = _by_class((path, [path]) for folder in folders for path in _folders(folder))
        if not classes[split]:
            raise UserError(f"{folders[0]}: contains no folder; needed: one for each class, with its images")
    for split, other in (SPLITS, SPLITS[::-1]):
        if lacking := sorted(set(classes[other]) - set(classes[split])):
            raise UserError(
                f"{places[split][0]}: {len(lacking)} classes of the other split are missing: {', '.join(lacking[:5])}"
            )
    return ClassLayout(root, classes, note=note)


def _by_class(places: Iterable[tuple[Path, Sequence[Path]]]) -> dict[str, list[Path]]:
    """{class: the folders of its images}, in the order of the names, from the folders that are named after classes. Systems
    differ in how they encode accents."""
    classes: dict[str, list[Path]] = {}
    for named, folders in places:
        classes.setdefault(unicodedata.normalize("NFC", named.name), []).extend(folders)
    return dict(sorted(classes.items()))


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not is_clutter(path.name))
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror})") from None


class ClassFolder(LabelledImages):
    """Images of one split, class by class, in the order of the files' names; keys number the files of the split. Files without an
    image's extension are left out and counted."""

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path, splits: Mapping[str, str] | None = None) -> None:
        """``splits``: the splits' folders, instead of the source's."""
        super().__init__(source)
        links = None if source.get("dataset") else self.links
        splits = source.get("splits") if splits is None else splits
        self._layout = class_layout(data_dir / source["path"], splits, links)
        self.classes = self.folder_names = self._layout.classes
        self.named = not source.get("dataset")
        if self._layout.note:
            self.facts = {"layout": self._layout.note}

    def items(self, split: str) -> Iterator[SourceItem]:
        number = 0
        for label, name in enumerate(self.folder_names):
            for path in self._layout.files(split, name):
                place, named = path.relative_to(self._layout.root).as_posix(), is_image_name(path)
                read = partial(read_file, path) if named else LeftOut("not named as an image")
                yield SourceItem(f"{number:08d}", place, read, label=label)
                number += 1


open_source = ClassFolder  # see mdc.data.sources.source
