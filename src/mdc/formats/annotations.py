"""Annotation files as the datasets publish them, JSON and plain text, read whole with one line for whatever is wrong."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from mdc.formats.folders import existing_file
from mdc.records import UserError


def published_json(path: Path, dataset: str, keep: Collection[str] | None = None) -> Any:
    """The JSON value of a file. With ``keep``, objects hold these keys alone.

    What is not kept goes as soon as its object is read: Karpathy's COCO file is nine tenths token lists.
    """

    def slim(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in pairs if keep is None or key in keep}

    try:
        return json.loads(existing_file(path, dataset).read_bytes().decode("utf-8"), object_pairs_hook=slim)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({str(error)[:200]}); get the file again") from None


def objects(value: Any, path: Path, what: str) -> list[dict[str, Any]]:
    """``value`` if it is a list of objects that is not empty; otherwise a UserError: ``path`` holds no ``what``."""
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise UserError(f"{path}: holds no list of {what}; is it the published file?")
    return value


def field(item: dict[str, Any], name: str, kind: type, path: Path, number: int | str) -> Any:
    """A field of a published item. UserError naming file, item and field if it is missing or of another type."""
    value = item.get(name)
    if type(value) is not kind:
        has = "is missing" if name not in item else f"is {json.dumps(value, default=str)[:60]}"
        raise UserError(f"{path}, item {number}: {name} {has}; needed: {_TYPES[kind]}; is it the published file?")
    return value


_TYPES = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def published_lines(path: Path, dataset: str) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of the lines that are not blank, ends taken off. UserError for a file that is no UTF-8."""
    try:
        text = existing_file(path, dataset).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); get the file again") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")
