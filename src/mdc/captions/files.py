"""The JSON files of the COCO caption challenge: results, a caption an image, and references, several an image."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.records import UserError, json_text, write_text


def read_captions(path: Path) -> dict[str, str]:
    """A results file: ``[{"image_id": …, "caption": …}, …]``, an image once; {image: caption} in its order."""
    found: dict[str, str] = {}
    for image, caption in _entries(path, _read(path)):
        if image in found:
            raise UserError(f"{path}: image {image} has two captions; a result has one an image")
        found[image] = caption
    return found


def read_references(path: Path) -> dict[str, list[str]]:
    """References: COCO's annotations (``{"annotations": [{"image_id": …, "caption": …}, …]}``), such a list alone, or
    ``{image: [caption, …]}``."""
    values = _read(path)
    if isinstance(values, dict) and "annotations" not in values:
        for image, captions in values.items():
            if not (isinstance(captions, list) and all(isinstance(one, str) for one in captions)):
                raise UserError(f"{path}: the references of image {image} are no list of captions")
        return {image: list(captions) for image, captions in values.items()}
    found: dict[str, list[str]] = {}
    for image, caption in _entries(path, values["annotations"] if isinstance(values, dict) else values):
        found.setdefault(image, []).append(caption)
    return found


def write_captions(path: Path, captions: Mapping[str, str]) -> None:
    """A results file, whole or not at all; names that are whole numbers are written as numbers, as COCO's are."""
    entries = [{"image_id": int(i) if i.isascii() and i.isdigit() else i, "caption": c} for i, c in captions.items()]
    write_text(path, json_text(entries))


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, EOFError, RecursionError) as error:
        raise UserError(f"{path}: is no JSON ({str(error)[:100]})") from None


def _entries(path: Path, entries: Any) -> Sequence[tuple[str, str]]:
    found = []
    if not isinstance(entries, list):
        raise UserError(f'{path}: must be a list of {{"image_id": …, "caption": …}}')
    for number, entry in enumerate(entries):
        image, caption = (entry.get(key) if isinstance(entry, dict) else None for key in ("image_id", "caption"))
        if not isinstance(image, int | str) or isinstance(image, bool) or not isinstance(caption, str):
            raise UserError(f'{path}: entry {number} must have an "image_id" and a "caption"')
        found.append((str(image), caption))
    return found
