"""Recognise the kind of source of a user's paths."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mdc.app.init.table import Table, look_at_table, splits_of_words
from mdc.data.formats.folders import is_image_name
from mdc.data.formats.parquet_file import open_parquet, parquet_rows
from mdc.data.formats.table_rows import TEXTS, kind_of
from mdc.data.sources.corpora.caption_files import ENDINGS as BESIDE
from mdc.data.sources.corpora.caption_files import splits_of_folders
from mdc.data.sources.parquet import ParquetFiles, image_column
from mdc.plan.data_folder import Links, walk
from mdc.plan.records import UserError

_MOST_FOLDERS = 50  # candidates for the root of a table's image names
_MOST_TABLES = 20  # tables to try; more are one per image
_TAKEN = "a table (.csv, .tsv, .jsonl, .json, also .gz), a .txt beside each image, .tar or .parquet files"


@dataclass(frozen=True)
class Corpus:
    """A source of captioned images as a scale has it, without ``val_fraction``. ``holds_out``: whether a share of the images must
    be held out, without splits. ``images``, ``captions``: their places, for messages."""

    source: dict[str, Any]
    holds_out: bool
    images: str
    captions: str
    splits: tuple[str, ...] = ("train", "val")
    dataset: dict[str, Any] = field(default_factory=dict)


def recognise(root: Path, paths: Sequence[str]) -> Corpus:
    """The corpus that ``paths``, relative to ``root``, are: a folder, a file, or a folder of images and a table.

    UserError if it is none, or ambiguous.
    """
    folders = [path for path in paths if (root / path).is_dir()]
    files = [path for path in paths if path not in folders]
    if len(files) > 1:
        raise UserError(f"{root / files[0]} and {root / files[1]}: two files; name one, and the folder of its images")
    if len(folders) > 1:
        raise UserError(
            f"{root / folders[0]} and {root / folders[1]}: two folders; name one that holds both; folders of classes go "
            "with --probe"
        )
    if not files:
        return _folder(root, folders[0])
    path = files[0]
    ending = Path(path).suffix.lower()
    if ending in (".tar", ".parquet"):
        return _webdataset(root, path) if ending == ".tar" else _parquet(root, path)
    if kind_of(root / path, TEXTS) is None and ending != ".txt":
        raise UserError(f"{root / path}: unknown file extension; allowed: {_TAKEN}")
    folder = root / folders[0] if folders else (root / path).parent
    return _table(
        root, path, look_at_table(root / path, [folder, *_image_folders(folder, _by_kind(folder, Links())["images"])])
    )


def _folder(root: Path, path: str) -> Corpus:
    folder, links = root / path, Links()
    files = _by_kind(folder, links)
    if files["tars"] or files["parquets"]:
        return _webdataset(root, path) if files["tars"] else _parquet(root, path)
    if not files["images"]:
        has = ", ".join((files["tables"] + files["texts"] + files["others"])[:3]) or "nothing"
        raise UserError(f"{folder}: contains no images and no .tar or .parquet file; it has {has}{links.remark}")
    stems = {Path(name).with_suffix("") for name in files["images"]}
    loose = [name for name in (*files["tables"], *files["texts"]) if Path(name).with_suffix("") not in stems]
    beside = any(Path(name).with_suffix("") in stems for name in files["texts"])
    tables, wrong, within = [], [], _image_folders(folder, files["images"])
    for name in loose[:_MOST_TABLES]:
        starts = [folder, (folder / name).parent, *within]
        try:
            tables.append((name, look_at_table(folder / name, list(dict.fromkeys(starts)))))
        except UserError as error:
            wrong.append(error)
    tables.sort()
    named = [name for name, _ in tables] + (["text files beside the images"] if beside else [])
    if len(named) > 1:
        raise UserError(
            f"{folder}: captions in {named[0]} and in {named[1]}; name one: mdc init NAME {path} {path}/{named[0]}"
        )
    if beside:
        return _caption_files(root, path, files["images"])
    if tables:
        return _table(root, f"{path}/{tables[0][0]}" if path != "." else tables[0][0], tables[0][1])
    if len(wrong) == 1 or (wrong and files["tables"]):
        raise wrong[0]
    raise UserError(f"{folder}: contains {len(files['images']):,} images and no captions; needed: {_TAKEN}")


def _by_kind(folder: Path, links: Links) -> dict[str, list[str]]:
    """The files of a folder, as paths from it, by what they can be."""
    by_kind: dict[str, list[str]] = {kind: [] for kind in ("images", "tables", "texts", "tars", "parquets", "others")}
    for place, names in walk([folder], links):
        for name in names:
            by_kind[_kind(Path(name))].append((place.relative_to(folder) / name).as_posix())
    return by_kind


def _kind(file: Path) -> str:
    ending = file.suffix.lower()
    if is_image_name(file):
        return "images"
    if ending in (".tar", ".parquet"):
        return "tars" if ending == ".tar" else "parquets"
    if ending in BESIDE:
        return "texts"
    return "tables" if kind_of(file, TEXTS) else "others"


def _image_folders(folder: Path, images: list[str]) -> list[Path]:
    """The folders of ``images``, the first ones."""
    return list(dict.fromkeys((folder / name).parent for name in images))[:_MOST_FOLDERS]


def _table(root: Path, path: str, table: Table) -> Corpus:
    folder, columns = table
    images = Path(os.path.relpath(folder, root)).as_posix()
    source: dict[str, Any] = {"kind": "caption_table", "path": path}
    if (root / path).parent != folder:
        source["images"] = images
    caption = columns.get("caption_column", "caption")
    names = caption if isinstance(caption, list) else [caption]
    captions = f"{path} (column {', '.join(map(str, names))})"
    splits = tuple(columns.get("splits", ("train", "val")))
    return Corpus(source | columns, "split_column" not in columns, images, captions, splits)


def _caption_files(root: Path, path: str, images: list[str]) -> Corpus:
    named = set(splits_of_folders(root / path, images).values())
    source: dict[str, Any] = {"kind": "caption_files", "path": path}
    splits = ("train", "val", *(["test"] if "test" in named and None not in named else []))
    if len(splits) > 2:
        source["splits"] = list(splits)
    return Corpus(source, None in named, path, "text files beside them", splits)


def _webdataset(root: Path, path: str) -> Corpus:
    from mdc.data.sources.corpora.webdataset import Webdataset

    source = {"kind": "webdataset", "path": path}
    opened = Webdataset({**source, "val_fraction": 0.0, "caption_field": None}, root, path, None)
    named = {split for split, _ in opened.shards}
    return Corpus(source, None in named, path, "the tars")


def _parquet(root: Path, path: str) -> Corpus:
    source: dict[str, Any] = {"kind": "parquet", "path": path}
    files = ParquetFiles(source, root)
    image = image_column(files.paths[0])
    source |= {} if image == "image" else {"image_column": image}
    with open_parquet(files.paths[0]) as file:
        columns = file.schema_arrow.names
    splits: tuple[str, ...] = ("train", "val")
    holds_out = False
    column_splits = _splits_of_column(files.paths) if "split" in columns else {}
    if column_splits:
        source["splits"], splits = column_splits, tuple(column_splits)
    else:
        named = set(files.named.values())
        source["split_column"] = None
        if "val" not in named and "test" in named:
            source["splits"] = {"train": "train", "val": "test"}
        elif "test" in named:
            source["splits"] = {"train": "train", "val": "val", "test": "test"}
            splits = ("train", "val", "test")
        holds_out = not named & {"val", "test"}
    source |= {"sharded": True} if len(files.paths) > 1 else {}
    return Corpus(source, holds_out, path, f"{path}", splits)


def _splits_of_column(files: Sequence[Path]) -> dict[str, Any]:
    words: dict[str, None] = {}
    for path in files:
        with open_parquet(path) as file:
            words |= dict.fromkeys(row["split"] for row in parquet_rows(path, file, ["split"]))
    return splits_of_words(files[0], "split", [str(word) for word in words if word is not None])
