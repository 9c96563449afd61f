"""Captioned images by Karpathy's split files: dataset_coco.json, dataset_flickr30k.json, dataset_flickr8k.json.

Format (Karpathy and Li, 2015): ``{"dataset": …, "images": [{"filename", "split", "sentences": [{"raw", "sentid", …}],
COCO alone: "filepath" (train2014 or val2014), "cocoid"}, …]}``; splits are train, val, test and, for COCO, restval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mdc.formats.annotations import field, objects, published_json
from mdc.formats.folders import NamedImages, dataset_folder, existing_folder
from mdc.formats.samples import Skipped, safe_key
from mdc.records import UserError

Source = Mapping[str, Any]
#: annotation file and image folder of each set, as its archives unpack
PLACES = {
    "mscoco": ("dataset_coco.json", "."),
    "flickr30k": ("dataset_flickr30k.json", "flickr30k-images"),
    "flickr8k": ("dataset_flickr8k.json", "Flicker8k_Dataset"),
}
_KEPT = frozenset({"images", "filepath", "filename", "split", "sentences", "raw", "sentid"})


@dataclass(frozen=True)
class KarpathyImage:
    """An image of the file: its name under the image folder, its split there, its captions and their numbers."""

    key: str
    name: str
    split: str
    captions: tuple[str, ...]
    caption_ids: tuple[str, ...]


def samples(
    source: Source, split: str, data_dir: Path, skipped: Skipped
) -> Iterator[tuple[str, str, bytes, str, list[str]]]:
    """(key, image name, encoded bytes, extension, captions) of one split, in the order of the file."""
    wanted = _their_splits(source, split)
    images = NamedImages(image_folder(source, data_dir), skipped)
    for image in listed(source, data_dir):
        if image.split in wanted and (found := images.read(image.key, image.name)) is not None:
            yield image.key, image.name, *found, list(image.captions)


def _their_splits(source: Source, split: str) -> set[str]:
    theirs = source.get("splits", {"train": "train", "val": "val", "test": "test"}).get(split)
    joined = {"restval"} if theirs == "train" and source.get("restval", True) else set()
    return joined | {theirs} - {None}


def image_folder(source: Source, data_dir: Path) -> Path:
    """Where image names start: ``images`` (relative to ``path``, or absolute), or the set's usual folder."""
    folder = dataset_folder(source, data_dir)
    named = source.get("images") or _place(source)[1]
    return existing_folder(folder / named, source["dataset"])


def listed(source: Source, data_dir: Path) -> list[KarpathyImage]:
    """All images of the annotation file. UserError if it is not of the format, or names an image twice."""
    path = dataset_folder(source, data_dir) / (source.get("annotations") or _place(source)[0])
    written = path.stat().st_mtime_ns if path.is_file() else 0
    return _read(str(path), source["dataset"], written)


def _place(source: Source) -> tuple[str, str]:
    if source["dataset"] not in PLACES:
        raise UserError(
            f"dataset {source['dataset']!r} has no usual places of Karpathy's files; name annotations and images, or "
            f"take one of {', '.join(PLACES)}"
        )
    return PLACES[source["dataset"]]


@lru_cache(maxsize=1)  # every split asks for the same file
def _read(path_text: str, dataset: str, written: int) -> list[KarpathyImage]:
    path = Path(path_text)
    content = published_json(path, dataset, _KEPT)
    found: list[KarpathyImage] = []
    seen: set[str] = set()
    for number, item in enumerate(
        objects(content.get("images") if isinstance(content, dict) else None, path, "images")
    ):
        filename = field(item, "filename", str, path, number)
        folder = field(item, "filepath", str, path, number) if "filepath" in item else ""
        name = f"{folder}/{filename}" if folder else filename
        if name in seen:
            raise UserError(f"{path}, item {number}: {name} stands twice, so splits could share it; get the file again")
        seen.add(name)
        sentences = field(item, "sentences", list, path, number)
        if not all(isinstance(sentence, dict) for sentence in sentences):
            raise UserError(f"{path}, item {number}: a sentence is no object; is it the published file?")
        texts = tuple(field(sentence, "raw", str, path, number) for sentence in sentences)
        ids = tuple(str(sentence.get("sentid", f"{number}-{i}")) for i, sentence in enumerate(sentences))
        split = field(item, "split", str, path, number)
        found.append(KarpathyImage(safe_key(Path(filename).stem), name, split, texts, ids))
    return found
