"""Files of the COCO caption challenge: results with a caption per image, and references with several, as JSON or a table."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import caption_name
from mdc.data.formats.gzipped import read_json_value
from mdc.data.formats.samples import texts_of
from mdc.data.sources.named_table import NamedTable, kind_of
from mdc.plan.records import UserError


def read_captions(path: Path) -> dict[str, str]:
    """A results file: ``[{"image_id": …, "caption": …}, …]``, an image once; {image: caption} in its order. What ``mdc metrics
    --out`` wrote is one too."""
    captions: dict[str, str] = {}
    for image, caption in _entries(path, _results(path)):
        if image in captions:
            raise UserError(f"{path}: image {image} has two captions; a result has one an image")
        captions[image] = caption
    return captions


def read_ids(path: Path) -> dict[str, int | str]:
    """The ``image_id`` of each image of a results file as it is: a number, or text."""
    return {str(entry["image_id"]): entry["image_id"] for entry in _results(path)}


def _results(path: Path) -> Any:
    values = read_json_value(path)
    return values["images"] if isinstance(values, dict) and "metrics" in values and "images" in values else values


def read_references(path: Path) -> dict[str, list[str]]:
    """References: COCO's annotations (``{"annotations": [{"image_id": …, "caption": …}, …]}``), such a list alone, or
    ``{image: [caption, …]}``; or a table of images and captions, a row or a column for each caption of an image, whose names
    are those of files or ``image_id``."""
    if kind_of(path) is not None:
        return _table_references(path)
    values = read_json_value(path)
    if isinstance(values, dict) and "annotations" not in values:
        for image, captions in values.items():
            if not (isinstance(captions, list) and all(isinstance(text, str) for text in captions)):
                raise UserError(f"{path}: the references of image {image} are no list of captions")
        return {image: list(captions) for image, captions in values.items()}
    references: dict[str, list[str]] = {}
    for image, caption in _entries(path, values["annotations"] if isinstance(values, dict) else values):
        references.setdefault(image, []).append(caption)
    return references


def _table_references(path: Path) -> dict[str, list[str]]:
    table = NamedTable(path)
    image, columns = table.image_column(), table.columns("captions", caption_name)
    by_name: dict[str, list[str]] = {}
    for number, row, complaint in table.rows([image, *columns]):
        name = row.get(image)
        if complaint or not isinstance(name, int | str) or not str(name).strip():
            raise UserError(f"{path}: row {number}: {complaint or 'names no image'}")
        texts = [text for column in columns for text in texts_of(row.get(column)) if text.strip()]
        by_name.setdefault(str(name).strip(), []).extend(texts)
    ids = image_ids([Path(name) for name in by_name])
    return {str(image_id): texts for image_id, texts in zip(ids, by_name.values(), strict=True)}


def read_file_names(path: Path) -> dict[str, str]:
    """The file name of each image in COCO's annotations (``{"images": [{"id": …, "file_name": …}, …]}``); {} for other
    references."""
    values = read_json_value(path) if kind_of(path) is None else None
    images = values.get("images") if isinstance(values, dict) and "annotations" in values else None
    listed = [entry for entry in images if isinstance(entry, dict)] if isinstance(images, list) else []
    return {
        str(entry["id"]): entry["file_name"]
        for entry in listed
        if "id" in entry and isinstance(entry.get("file_name"), str)
    }


def image_ids(paths: Sequence[Path]) -> list[int | str]:
    """The ``image_id`` of each image file in a results file, none twice if no path is.

    A name that is a whole number (``42.png``, ``000000000042.jpg``), or one of COCO's own (``COCO_val2014_000000000042.jpg``),
    has that number as its id; any other has the file's name. Files that would share an id get their paths."""
    ids = [_image_id(path) for path in paths]
    counts = Counter(ids)
    return [image_id if counts[image_id] == 1 else str(path) for image_id, path in zip(ids, paths, strict=True)]


def _image_id(path: Path) -> int | str:
    number = re.fullmatch(r"(?:COCO_\w+?_(?=\d{12}$))?(\d+)", path.stem, re.ASCII)
    return int(number[1]) if number else path.name


def _entries(path: Path, entries: Any) -> Sequence[tuple[str, str]]:
    captions = []
    if not isinstance(entries, list):
        raise UserError(f'{path}: must be a list of {{"image_id": …, "caption": …}}')
    for number, entry in enumerate(entries):
        image, caption = (entry.get(key) if isinstance(entry, dict) else None for key in ("image_id", "caption"))
        if not isinstance(image, int | str) or isinstance(image, bool) or not isinstance(caption, str):
            raise UserError(f'{path}: entry {number} must have an "image_id" and a "caption"')
        captions.append((str(image), caption))
    return captions
