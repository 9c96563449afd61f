"""The paper's probes, read like CLIP-benchmark's dataset builder does, from the user's own copy.

Splits and labels are those of CLIP-benchmark's linear probe (``--train_split train``, Pets ``trainval``; ``test``):

    imagenet1k   train / val, classes in the order of their WordNet numbers      ``imagenet1k-unverified``
    food101      train / test                                                    ``food101``
    cifar10/100  train / test                                                    ``cifar10``, ``cifar100``
    pets         trainval / test                                                 ``pets``
    stl10        train (5,000 labelled) / test                                   ``stl10``
    flowers102   train (1,020; its val split is not used) / test (6,149)         ``flowers``
    voc2007      train (2,501) / test (4,952), multi-label: each of the 20       ``voc2007_multilabel``
                 classes with an object in the image, "difficult" ones included

CLIP-benchmark's own linear probe of VOC2007 uses another set, ``voc2007``: every object cropped to its box, one class each,
top-1. Its probe does not support multi-label sets.

Nothing is downloaded. Image files keep their bytes; images in arrays become lossless PNG. Two sets are read without the
builder, with equal results: STL-10, and ImageNet (a list of 1.3 million paths). torchvision reads CIFAR's pickles and
Flowers102's two MATLAB files only with the published MD5: a pickle can run any code, and SciPy's reader can crash.

Format of STL-10's binary version (Coates et al., 2011): images as (3, width, height) uint8, and labels from 1. It is read here,
because torchvision's reader needs the 2.6 GB of unlabelled images too, and reads everything at once.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.annotations import published_lines
from mdc.data.formats.folders import dataset_folder, needed, read_named
from mdc.data.formats.images import Pixels, png
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import Encoded, RawSample, Skipped
from mdc.data.sources.cleaned import LabelledImages
from mdc.data.sources.probes.class_folder import ClassFolder
from mdc.data.sources.source import Source
from mdc.plan.records import UserError, read_json

_STL_FOLDER, _STL_SIDE = "stl10_binary", 96


class Stl10(Source[RawSample]):
    """The labelled images of one split in the order of the files, read one by one; keys number them.

    UserError for a file that is missing or not of the format.
    """

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._folder = needed(dataset_folder(source, data_dir) / _STL_FOLDER, dataset="stl10")
        path = self._folder / "class_names.txt"
        self.classes = [line.strip() for _, line in published_lines(path, "stl10")]
        if len(self.classes) < 2:
            raise UserError(f"{path}: contains no list of class names; download the file again")

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        path = needed(self._folder / f"{split}_X.bin", "file", "stl10")
        labels = np.fromfile(needed(self._folder / f"{split}_y.bin", "file", "stl10"), dtype=np.uint8)
        size = 3 * _STL_SIDE * _STL_SIDE
        if not len(labels) or path.stat().st_size != len(labels) * size:
            raise UserError(
                f"{path}: has {path.stat().st_size} bytes, {len(labels)} labels need {len(labels) * size}; download it again"
            )
        with path.open("rb") as file:
            for number, label in enumerate((labels.astype(int) - 1).tolist()):
                if not 0 <= label < len(self.classes):
                    raise UserError(
                        f"{path}: label {label} is outside the {len(self.classes)} classes; download the file again"
                    )
                planes = np.frombuffer(file.read(size), dtype=np.uint8).reshape(3, _STL_SIDE, _STL_SIDE)
                # the file is in column-major order
                pixels = np.ascontiguousarray(planes.transpose(2, 1, 0))
                yield RawSample(f"{number:08d}", png(pixels), "png", label=label)


#: CLIP-benchmark's name of a set, its folder there, and the builder's splits
_BUILT = {
    "food101": ("food101", "food-101", {"train": "train", "test": "test"}),
    "pets": ("pets", "oxford-iiit-pet", {"train": "trainval", "test": "test"}),
    "flowers102": ("flowers", "flowers-102", {"train": "train", "test": "test"}),
    "voc2007": ("voc2007_multilabel", "VOCdevkit/VOC2007", {"train": "train", "test": "test"}),
    "cifar10": ("cifar10", "cifar-10-batches-py", {"train": "train", "test": "test"}),
    "cifar100": ("cifar100", "cifar-100-python", {"train": "train", "test": "test"}),
}
_IMAGENET_SPLITS = {"train": "train", "test": "val"}


def open_source(source: Mapping[str, Any], data_dir: Path) -> Source[RawSample]:
    kinds: dict[str, Callable[[Mapping[str, Any], Path], Source[RawSample]]] = {
        "imagenet1k": ImageNet,
        **dict.fromkeys(_BUILT, Built),
        "stl10": Stl10,
    }
    return kinds[source["dataset"]](source, data_dir)


class Built(LabelledImages):
    """ "train" or "test" of a set in the builder's order; keys number the images."""

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._name: str = source["dataset"]
        self._root = dataset_folder(source, data_dir).resolve()
        self._sets = {split: _build(self._name, self._root, split) for split in ("train", "test")}
        classes = {split: [str(name) for name in dataset.classes] for split, dataset in self._sets.items()}
        if classes["train"] != classes["test"]:
            raise UserError(f"{self._root}: the classes of {self._name} differ between train and test")
        self.classes = classes["train"]
        self.task = "multi" if self._name == "voc2007" else "single"

    def items(self, split: str) -> Iterator[SourceItem]:
        if self._name in ("cifar10", "cifar100"):
            dataset = self._sets[split]
            for number, (pixels, label) in enumerate(zip(dataset.data, dataset.targets, strict=True)):
                yield SourceItem(f"{number:08d}", "", partial(_as_png, pixels), label=label)
            return
        for number, (path, label) in enumerate(self._files(split)):
            name = path.relative_to(self._root) if path.is_relative_to(self._root) else path
            yield SourceItem(
                f"{number:08d}", name.as_posix(), partial(read_named, self._root, name.as_posix()), label=label
            )

    def _files(self, split: str) -> Iterator[tuple[Path, Any]]:
        """(file, label or labels) of each image."""
        dataset = self._sets[split]
        match self._name:
            case "voc2007":
                for name, labels in zip(dataset.paths, dataset.labels.int().tolist(), strict=True):
                    yield Path(dataset.path_images) / f"{name}.jpg", tuple(labels)
            case "pets":  # the only builder without a loader argument
                yield from ((Path(path), int(n)) for path, n in zip(dataset._images, dataset._labels, strict=True))
            case _:
                yield from ((path, int(label)) for path, label in (dataset[number] for number in range(len(dataset))))


def _as_png(pixels: Pixels, _: int | None) -> Encoded:
    return png(pixels), "png"


def _build(name: str, root: Path, split: str) -> Any:
    from clip_benchmark.datasets.builder import build_dataset

    benchmark_name, folder, splits = _BUILT[name]
    needed(root / folder, dataset=name)
    # the default loader opens an image; this one keeps its path
    loader = {"loader": Path} if name in ("food101", "flowers102") else {}
    try:
        return build_dataset(benchmark_name, root=str(root), split=splits[split], download=False, **loader)
    except Exception as error:  # the builders and their parsers raise many kinds of errors
        reason = str(error).replace(" You can use download=True to download it", "") or type(error).__name__
        raise UserError(
            f"{root / folder}: the {split} split of {name} cannot be read ({reason[:200]}); unpack its archives "
            f"again, see data.datasets.{name} of the scale"
        ) from None


class ImageNet(ClassFolder):
    """Folders by WordNet number, with CLIP-benchmark's names; a subset of ImageNet-1k (such as ImageNet-100) has fewer."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        from clip_benchmark.datasets import builder

        root = dataset_folder(source, data_dir)
        for folder in _IMAGENET_SPLITS.values():
            needed(root / folder, dataset="imagenet1k")
        super().__init__(source, data_dir, _IMAGENET_SPLITS)
        names = read_json(Path(builder.__file__).with_name("en_classnames.json"))["imagenet1k"]
        named = dict(zip(builder.all_imagenet_wordnet_ids, names, strict=True))
        if unknown := [folder for folder in self.folder_names if folder not in named]:
            raise UserError(
                f"{root / 'train'}: {len(unknown)} folders are not classes of ImageNet-1k, the first is {unknown[0]!r}; each "
                "class has a folder called by its WordNet number, like n01440764 (the validation images too)"
            )
        self.classes = [str(named[folder]) for folder in self.folder_names]
