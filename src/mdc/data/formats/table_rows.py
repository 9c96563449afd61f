"""Rows of tables, read in order: CSV, TSV, JSON lines and JSON in UTF-8, gzipped or not, and parquet.

A malformed file (not UTF-8, an unknown column, a broken quotation) raises a UserError that names the line. A malformed row is
yielded with a complaint, so that the reader can count it.
"""

import csv
import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import listed_files, needed
from mdc.data.formats.gzipped import lines_of, read_json_value
from mdc.data.formats.parquet_file import open_parquet, parquet_rows
from mdc.plan.data_folder import Links
from mdc.plan.records import UserError

Column = str | int
Row = tuple[int, dict[Column, Any], str]  # line, values by column, complaint or ""

ENDINGS = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"},
    **{".json": "json", ".parquet": "parquet"},
}
#: tables whose columns have names, and tables that are text
TABLES, TEXTS = ("tsv", "csv", "jsonl", "parquet"), ("tsv", "csv", "jsonl", "json")
_LONGEST_FIELD = 1 << 20  # characters


def kind_of(path: Path, kinds: Collection[str] = TABLES) -> str | None:
    """The kind of a table by its file's extension, with or without ``.gz``; None for one that is not among ``kinds``."""
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    kind = ENDINGS.get(name.suffix.lower())
    return kind if kind in kinds else None


def files_of(
    path: Path, kinds: Collection[str], form: str | None = None, setting: str = "format", links: Links | None = None
) -> list[Path]:
    """``path`` itself, or the files below it of ``kinds`` (of ``form`` alone, if it is given), without clutter, in the order of
    their names; ``links`` as in ``walk``. UserError if there is none, or if the file's extension is unknown; it names the
    ``setting`` of the form."""
    endings = [ending for ending, kind in ENDINGS.items() if kind in ([form] if form else kinds)]
    if needed(path, "file or folder").is_file():
        if form is None and kind_of(path, kinds) is None:
            raise UserError(f"{path}: unknown file extension; allowed: {', '.join(endings)}, or set {setting}")
        return [path]

    def is_one(file: Path) -> bool:
        return kind_of(file, [form] if form else kinds) is not None

    if not (files := list(filter(is_one, listed_files([path], links, is_one)))):
        met = links.remark if links else ""
        raise UserError(f"{path}: contains no {' or '.join(endings)} file; put it there{met}")
    return files


def json_rows(path: Path, errors: str = "strict") -> Iterator[Row]:
    """Rows of a JSON-lines file; empty lines are skipped. ``errors`` as in ``table_rows``."""
    for number, text in lines_of(path, errors):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        yield (number, row, "") if isinstance(row, dict) else (number, {}, "row is no JSON object")


def table_rows(
    path: Path,
    kind: str,
    header: bool,
    wanted: Iterable[Column | None],
    errors: str = "strict",
    delimiter: str | None = None,
) -> Iterator[Row]:
    """Rows of a CSV file (with quoted fields), a TSV file (where a quotation mark is an ordinary character), JSON lines, JSON or
    parquet, of which the ``wanted`` columns alone are read.

    Columns are named, or numbered from 0 if ``header`` is false. UserError if a ``wanted`` column is missing. ``delimiter`` of a
    CSV: a comma by default.
    With ``errors`` "surrogateescape", bytes that are not UTF-8 become lone surrogates; otherwise they are a UserError.
    """
    if kind == "parquet":
        with open_parquet(path) as file:
            yield from ((number, row, "") for number, row in enumerate(parquet_rows(path, file, wanted)))
        return
    if kind in ("jsonl", "json"):
        yield from json_rows(path, errors) if kind == "jsonl" else json_objects(path)
        return
    names: list[Column] = []
    for line, cells in _csv_cells(path, errors, delimiter or ",") if kind == "csv" else _tsv_cells(path, errors):
        if not cells:
            continue
        if not names:
            names = [cell.strip() for cell in cells] if header else list(range(len(cells)))
            _known_columns(path, names, wanted)
            if header:
                continue
        if len(cells) == len(names):
            yield line, dict(zip(names, cells, strict=True)), ""
        else:
            yield line, {}, "row has another number of columns"


def json_objects(path: Path) -> Iterator[Row]:
    """Rows of a JSON file, each with its number instead of a line.

    The file is a list of objects, or an object with one such list; COCO's captions (``images`` and ``annotations``), whose rows
    have ``image`` and ``caption``, the captions of an image; or an object {image name: captions}, with the same columns.
    UserError for anything else.
    """
    value = read_json_value(path)
    if isinstance(value, dict) and {"images", "annotations"} <= set(value):
        yield from _coco(path, value["images"], value["annotations"])
        return
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list) and part and isinstance(part[0], dict)]
        named = [{"image": name, "caption": texts} for name, texts in value.items()]
        value = lists[0] if len(lists) == 1 else named
    if not isinstance(value, list):
        raise UserError(
            f"{path}: holds a JSON {type(value).__name__}; needed: a list of objects, or COCO's captions file"
        )
    for number, row in enumerate(value):
        yield (number, row, "") if isinstance(row, dict) else (number, {}, "row is no JSON object")


def coco_annotations(path: Path) -> list[Any]:
    """The ``annotations`` of COCO's captions file, as they are. UserError if it has no such list."""
    value = read_json_value(path)
    if not isinstance(value, dict) or not isinstance(value.get("annotations"), list):
        raise UserError(f"{path}: not COCO's captions file (it is no object with a list 'annotations')")
    return list(value["annotations"])


def _coco(path: Path, images: Any, annotations: Any) -> Iterator[Row]:
    """A row for each image, with its captions in the file's order."""
    orphans: dict[Column, Any] = {"caption": []}
    try:
        rows: dict[Any, dict[Column, Any]] = {
            image["id"]: {"image": image["file_name"], "caption": []} for image in images
        }
        for annotation in annotations:
            rows.get(annotation["image_id"], orphans)["caption"].append(annotation["caption"])
    except (TypeError, KeyError) as error:
        missing = f"an entry lacks {error}" if isinstance(error, KeyError) else "its lists hold other things"
        raise UserError(
            f"{path}: not COCO's captions file ({missing}); images need id and file_name, annotations image_id and caption"
        ) from None
    if len(rows) != len(images):
        raise UserError(f"{path}: images have duplicate ids, so captions could go to the wrong image")
    yield from ((number, row, "") for number, row in enumerate(rows.values()))
    yield from ((len(rows) + number, {}, "annotation of no image") for number in range(len(orphans["caption"])))


def _tsv_cells(path: Path, errors: str) -> Iterator[tuple[int, list[str]]]:
    for line, text in lines_of(path, errors):
        text = text.rstrip("\r\n")
        yield line, text.split("\t") if text else []


def _csv_cells(path: Path, errors: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader((text for _, text in lines_of(path, errors)), strict=True, delimiter=delimiter)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        if "new-line character" in str(error):
            raise UserError(
                f"{path}, line {reader.line_num + 1}: a carriage return alone; convert the line ends (to \\n or \\r\\n)"
            ) from None
        raise UserError(f"{path}, line {reader.line_num}: {error}; unclosed quote?") from None


def _known_columns(path: Path, names: list[Column], wanted: Iterable[Column | None]) -> None:
    for column in wanted:
        if column is not None and column not in names:
            _other_delimiter(path, names)
            has = ", ".join(map(str, names))[:200]
            raise UserError(f"{path}: has no column {column!r}; it has {has}; header: false counts columns from 0")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{path}: duplicate column {twice!r}")


def _other_delimiter(path: Path, names: list[Column]) -> None:
    """UserError if the first line seems to have another delimiter."""
    first = str(names[0])
    if first.startswith("sep="):
        raise UserError(f"{path}: the first line, {first!r}, is Excel's; delete it")
    mark = next((mark for mark in "\t;|," if mark in first), "")
    if len(names) == 1 and mark:
        raise UserError(
            f"{path}: one column, {first[:100]!r}; is the delimiter {mark!r}? A .csv has commas and a .tsv tabs (or set format "
            "or delimiter)"
        )
