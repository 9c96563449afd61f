"""Captions without images: a list as its publisher distributes it, for statistics before any image is fetched.

``caption_list`` is a source with a ``path`` (a file; or a data set's folder: then all its files of one format in ``list/``, or
in the folder itself; ``file`` names one of them) and a ``format``: tsv, csv, jsonl, parquet, or coco_json (COCO's captions
file, plain or gzipped). A bad row is counted by its reason; a bad file is a UserError.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import needed
from mdc.data.formats.samples import Skipped, texts_of
from mdc.data.formats.table_rows import ENDINGS, Column, coco_annotations, files_of, kind_of, table_rows
from mdc.data.sources.parquet import captions_of_file
from mdc.data.sources.source import Source
from mdc.plan.data_folder import is_clutter
from mdc.plan.records import UserError

_KINDS = frozenset(ENDINGS.values())


class CaptionList(Source[list[str]]):
    """The unchanged captions of each row (of coco_json: of each image), in a fixed order.

    With ``split_column``, only of the rows with the value ``split``. ``skipped`` counts unreadable rows; a row without a caption
    is an empty list.
    """

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._files = _list_files(source, data_dir)
        for path, kind in self._files:
            if kind == "coco_json" and source["split"] is not None:
                raise UserError(f"{path}: COCO's captions files have no split_column; choose the split by the file")

    def samples(self, split: str, skipped: Skipped) -> Iterator[list[str]]:
        source = self.config
        for path, kind in self._files:
            if kind == "coco_json":
                yield from _coco(path, skipped)
            elif kind == "parquet":
                yield from captions_of_file(path, source["caption_column"], source["split_column"], [source["split"]])
            else:
                yield from _table(source, path, kind, skipped)


open_source = CaptionList  # see mdc.data.sources.source


def _list_files(source: Mapping[str, Any], data_dir: Path) -> list[tuple[Path, str]]:
    """The files of a source in order, each with its format. UserError if there is none, or if formats mix."""
    path, wanted = Path(data_dir) / source["path"] / (source["file"] or ""), source["format"]
    if needed(path, "file or folder").is_file():
        return [(file, str(wanted or _format_of(file))) for file in files_of(path, _KINDS, wanted, "source.format")]
    folder = path / "list" if (path / "list").is_dir() else path
    here = [file for file in sorted(folder.iterdir()) if file.is_file() and not is_clutter(file.name)]
    files = [(file, kind) for file in here if (kind := _format_of(file)) and wanted in (None, kind)]
    if not files:
        raise UserError(f"{folder}: contains no list of captions; its name must end in {', '.join(ENDINGS)}")
    names = [file.name for file, _ in files]
    if twice := [name for name in names if name.endswith(".gz") and name[:-3] in names]:
        raise UserError(f"{folder}: contains {twice[0]} unpacked too; remove one of them, or set source.file")
    if len({kind for _, kind in files}) > 1:
        listed = ", ".join(names)[:200]
        raise UserError(f"{folder}: contains lists of several formats ({listed}); set source.format or source.file")
    return files


def _format_of(path: Path) -> str | None:
    """The format by a file's extension, or None."""
    kind = kind_of(path, _KINDS)
    return "coco_json" if kind == "json" else kind


def _table(source: Mapping[str, Any], path: Path, kind: str, skipped: Skipped) -> Iterator[list[str]]:
    column: Column = source["caption_column"]
    split_column, split = source["split_column"], source["split"]
    for line, row, complaint in table_rows(path, kind, source["header"], [column, split_column]):
        if complaint:
            skipped.add(complaint, f"line {line}", path.name)
        elif split_column is None or row.get(split_column) == split:
            yield texts_of(row.get(column))


def _coco(path: Path, skipped: Skipped) -> Iterator[list[str]]:
    """The captions of each image, in the order of their first caption."""
    by_image: dict[str, list[str]] = {}
    for number, entry in enumerate(coco_annotations(path)):
        if isinstance(entry, dict) and isinstance(entry.get("caption"), str) and "image_id" in entry:
            by_image.setdefault(str(entry["image_id"]), []).append(entry["caption"])
        else:
            skipped.add("annotation without image_id and caption", f"annotation {number}", path.name)
    yield from by_image.values()
