"""The paper's probes, read as CLIP-benchmark's dataset builder reads them, from the user's own copy.

Splits and labels are those of CLIP-benchmark's linear probe (``--train_split train``, Pets ``trainval``; ``test``):

    imagenet1k   train / val, classes in the order of their WordNet numbers      ``imagenet1k-unverified``
    food101      train / test                                                    ``food101``
    cifar10/100  train / test                                                    ``cifar10``, ``cifar100``
    pets         trainval / test                                                 ``pets``
    stl10        train (5,000 labelled) / test                                   ``stl10``
    flowers102   train (1,020; its val split is not used) / test (6,149)         ``flowers``
    voc2007      train (2,501) / test (4,952), multi-label: each of the 20       ``voc2007_multilabel``
                 classes with an object in the image, "difficult" ones included

Nothing is downloaded. Images that are files keep their bytes; those in arrays become lossless PNG. Three sets do not
go through the builder itself, with equal results: the CIFARs (torchvision unpickles them), STL-10 (torchvision wants
the 2.6 GB of unlabelled images too, and reads all at once) and ImageNet (a list of 1.3 million paths). Flowers102's two
MATLAB files are read only if they have the published MD5, which torchvision checks: SciPy's reader can crash on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from mdc.formats.folders import dataset_folder, existing_folder, inside
from mdc.formats.samples import RawSample, Skipped, image_file
from mdc.records import UserError, read_json
from mdc.sources import array_sets
from mdc.sources import class_folder as source_folder

Source = Mapping[str, Any]
_ARRAYS = ("cifar10", "cifar100", "stl10")
#: CLIP-benchmark's name of a set, the folder that its builder looks for, and the builder's splits
_BUILT = {
    "food101": ("food101", "food-101", {"train": "train", "test": "test"}),
    "pets": ("pets", "oxford-iiit-pet", {"train": "trainval", "test": "test"}),
    "flowers102": ("flowers", "flowers-102", {"train": "train", "test": "test"}),
    "voc2007": ("voc2007_multilabel", "VOCdevkit/VOC2007", {"train": "train", "test": "test"}),
}
_IMAGENET_SPLITS = {"train": "train", "test": "val"}
BUILDER_SETS = ("imagenet1k", *_BUILT, *_ARRAYS)
MULTI_LABEL = frozenset({"voc2007"})


def samples(source: Source, split: str, data_dir: Path, skipped: Skipped) -> Iterator[RawSample]:
    """Labelled images of "train" or "test", in the builder's order; keys number them. Errors: see the module."""
    name = _known(source)
    if name in _ARRAYS:
        yield from array_sets.samples(name, dataset_folder(source, data_dir), split)
    elif name == "imagenet1k":
        yield from source_folder.samples(_imagenet(source, data_dir), split, data_dir, skipped)
    else:
        yield from _built_samples(source, split, data_dir, skipped)


def classes(source: Source, data_dir: Path) -> list[str]:
    """English class names in label order, as CLIP-benchmark has them."""
    name = _known(source)
    if name in _ARRAYS:
        return array_sets.classes(name, dataset_folder(source, data_dir))
    if name == "imagenet1k":
        return _imagenet_names(source, data_dir)
    found = [list(_build(source, split, data_dir).classes) for split in ("train", "test")]
    if found[0] != found[1]:
        raise UserError(f"{dataset_folder(source, data_dir)}: the classes of {name} differ between train and test")
    return [str(each) for each in found[0]]


def _known(source: Source) -> str:
    if source["dataset"] not in BUILDER_SETS:
        raise UserError(f"no builder reads dataset {source['dataset']!r}; allowed: {', '.join(BUILDER_SETS)}")
    return str(source["dataset"])


# --- sets of files, through the builder -------------------------------------------------------------------------------


def _built_samples(source: Source, split: str, data_dir: Path, skipped: Skipped) -> Iterator[RawSample]:
    root = dataset_folder(source, data_dir).resolve()
    for number, (path, target) in enumerate(_files(source, split, data_dir)):
        key = f"{number:08d}"
        try:
            name = path.relative_to(root).as_posix()
        except ValueError:
            name = path.as_posix()
        place = inside(root, name)
        if place is None:
            skipped.add("image outside the folder", key, name)
        elif (found := image_file(place, skipped, key, name)) is not None:
            yield RawSample(key, *found, **target)


def _files(source: Source, split: str, data_dir: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(file, label or labels) of each image."""
    dataset = _build(source, split, data_dir)
    match source["dataset"]:
        case "voc2007":
            for name, labels in zip(dataset.paths, dataset.labels.int().tolist(), strict=True):
                yield Path(dataset.path_images) / f"{name}.jpg", {"labels": tuple(labels)}
        case "pets":  # the one builder that takes no loader
            for path, label in zip(dataset._images, dataset._labels, strict=True):
                yield Path(path), {"label": int(label)}
        case _:
            for number in range(len(dataset)):
                path, label = dataset[number]
                yield path, {"label": int(label)}


def _build(source: Source, split: str, data_dir: Path) -> Any:
    root = dataset_folder(source, data_dir).resolve()
    existing_folder(root / _BUILT[source["dataset"]][1], source["dataset"])
    return _built(source["dataset"], str(root), split)


@lru_cache(maxsize=2)  # the classes and then the samples of both splits ask for the same; a few thousand paths each
def _built(name: str, root: str, split: str) -> Any:
    from clip_benchmark.datasets.builder import build_dataset

    theirs, folder, splits = _BUILT[name]
    # their loader opens an image; ours hands on where it lies
    loader = {"loader": Path} if name in ("food101", "flowers102") else {}
    try:
        return build_dataset(theirs, root=root, split=splits[split], download=False, **loader)
    except Exception as error:  # what the builders and their parsers raise on missing and broken files is of many kinds
        said = str(error).replace(" You can use download=True to download it", "") or type(error).__name__
        raise UserError(
            f"{Path(root) / folder}: the {split} split of {name} cannot be read ({said[:200]}); unpack its archives "
            f"again, see datasets.{name} of params.yaml"
        ) from None


# --- ImageNet-1k ------------------------------------------------------------------------------------------------------


def _imagenet(source: Source, data_dir: Path) -> dict[str, Any]:
    root = dataset_folder(source, data_dir)
    for theirs in _IMAGENET_SPLITS.values():
        existing_folder(root / theirs, "imagenet1k")
    return {"path": source["path"], "splits": _IMAGENET_SPLITS}


def _imagenet_names(source: Source, data_dir: Path) -> list[str]:
    """CLIP-benchmark's name of each class folder; a part of ImageNet-1k (ImageNet-100, say) has those of its classes."""
    from clip_benchmark.datasets import builder

    names = read_json(Path(builder.__file__).with_name("en_classnames.json"))["imagenet1k"]
    named = dict(zip(builder.all_imagenet_wordnet_ids, names, strict=True))
    folders = source_folder.classes(_imagenet(source, data_dir), data_dir)
    if unknown := [folder for folder in folders if folder not in named]:
        root = dataset_folder(source, data_dir)
        raise UserError(
            f"{root / 'train'}: {len(unknown)} folders are no class of ImageNet-1k, the first is {unknown[0]!r}; each "
            "class has a folder called by its WordNet number, like n01440764 (the validation images too)"
        )
    return [str(named[folder]) for folder in folders]
