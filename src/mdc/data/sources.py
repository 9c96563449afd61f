"""Where samples come from: one validated ``source`` table in, raw samples out, the same in every run.

A source is a mapping with a ``kind``:

``scenes``        the embedded world of shapes: ``style`` (corpus) or ``task`` (probe), a count for each split,
                  ``seed``, ``pixels``
``digits``        scikit-learn's handwritten digits (8 × 8), enlarged four times; ``seed`` draws the 1,200 / 597 split
``parquet``       ``path`` (a file or a folder), ``split_column``, ``splits``, ``image_column``, ``caption_column``,
                  ``caption_mode``, ``max_pieces``, ``label_column``, ``class_name_column``, ``key_column``
``caption_nouns`` a multi-label probe from captioned images: which of the ``count`` commonest nouns the captions name

One bad sample is counted by its reason and left out; a bad file is a UserError.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data import nouns
from mdc.data.images import ImageError, decode
from mdc.records import UserError
from mdc.text import clip_pieces, clip_text

Source = Mapping[str, Any]

_EXTENSIONS = {"JPEG": "jpg", "MPO": "jpg", "PNG": "png", "WEBP": "webp", "GIF": "gif", "BMP": "bmp", "TIFF": "tif"}
DIGITS_TEST = 597  # of 1,797; the rest trains


@dataclass(frozen=True)
class RawSample:
    """One sample as it goes into a shard: ``image`` is encoded bytes, ``extension`` names their format.

    A corpus sample has captions; a probe sample has a ``label`` (single) or ``labels`` of zeros and ones (multi).
    """

    key: str
    image: bytes
    extension: str
    captions: tuple[str, ...] = ()
    truth: dict[str, Any] | None = None
    label: int | None = None
    labels: tuple[int, ...] | None = None


def iter_corpus(source: Source, split: str, data_dir: Path, skipped: Counter[str] | None = None) -> Iterator[RawSample]:
    """Captioned images of one split ("train" or "val") in a fixed order.

    ``skipped`` counts what was left out, by reason. UserError for a source that is missing, unreadable,
    or of a kind that is no corpus.
    """
    skipped = Counter() if skipped is None else skipped
    match source["kind"]:
        case "scenes":
            from mdc.data import scenes

            count = int(source.get(split, 0))
            for sample in scenes.corpus_samples(source["style"], split, count, source["seed"], source["pixels"]):
                yield RawSample(sample.key, sample.png, "png", tuple(sample.captions), sample.truth)
        case "parquet":
            for row in _rows(source, split, data_dir, skipped):
                captions = clean_captions(row.captions, source.get("caption_mode", "each"), source.get("max_pieces"))
                if captions:
                    yield RawSample(row.key, row.image, row.extension, captions)
                else:
                    skipped["no caption"] += 1
        case kind:
            raise UserError(f"source kind {kind!r} is no corpus; allowed: scenes, parquet")


def iter_probe(source: Source, split: str, data_dir: Path, skipped: Counter[str] | None = None) -> Iterator[RawSample]:
    """Labelled images of one split ("train" or "test") in a fixed order; see ``iter_corpus``."""
    skipped = Counter() if skipped is None else skipped
    match source["kind"]:
        case "scenes":
            from mdc.data import scenes

            count = int(source.get(split, 0))
            for sample in scenes.probe_samples(source["task"], split, count, source["seed"], source["pixels"]):
                yield RawSample(sample.key, sample.png, "png", truth=sample.truth, label=sample.label)
        case "digits":
            yield from _digits(split, int(source.get("seed", 0)))
        case "parquet":
            classes, labels = _class_table(source, data_dir)
            for row in _rows(source, split, data_dir, skipped):
                if row.label in labels:
                    yield RawSample(row.key, row.image, row.extension, label=labels[row.label])
                elif row.label is None:
                    skipped["no label"] += 1
                else:
                    raise UserError(f"{source['path']}: label {row.label!r} is outside the {len(classes)} classes")
        case "caption_nouns":
            table = _noun_table(source, data_dir)
            theirs = {**source, "splits": {"train": "dev", "test": "test", **source.get("splits", {})}}
            for row in _rows(theirs, split, data_dir, skipped):
                yield RawSample(row.key, row.image, row.extension, labels=tuple(nouns.presence(row.captions, table)))
        case kind:
            raise UserError(f"source kind {kind!r} is no probe; allowed: scenes, digits, parquet, caption_nouns")


def probe_classes(source: Source, data_dir: Path) -> list[str]:
    """Class names in label order."""
    match source["kind"]:
        case "scenes":
            from mdc.data import scenes

            return list(scenes.PROBE_CLASSES[source["task"]])
        case "digits":
            return [str(digit) for digit in range(10)]
        case "parquet":
            return _class_table(source, data_dir)[0]
        case "caption_nouns":
            return list(_noun_table(source, data_dir))
        case kind:
            raise UserError(f"source kind {kind!r} is no probe; allowed: scenes, digits, parquet, caption_nouns")


def probe_task(source: Source) -> str:
    """ "multi" where an image can have several of the classes, otherwise "single"."""
    return "multi" if source["kind"] == "caption_nouns" else "single"


# --- captions ---------------------------------------------------------------------------------------------------------


def clean_captions(captions: Iterable[str], mode: str = "each", max_pieces: int | None = None) -> tuple[str, ...]:
    """Captions with single spaces, without those that have no CLIP piece.

    ``mode`` "each" keeps them apart; "join" makes one of them, each ended by a full stop if it ends in no mark;
    "cut" keeps of each the longest run of whole words within ``max_pieces`` CLIP pieces.
    """
    kept = [text for text in (" ".join(caption.split()) for caption in captions) if clip_pieces(text)]
    if mode == "each" or not kept:
        return tuple(kept)
    if mode == "join":
        return (" ".join(text if text.endswith((".", "!", "?")) else text + " ." for text in kept),)
    if mode == "cut" and max_pieces is not None:
        return tuple(_cut(text, max_pieces) for text in kept)
    raise UserError(f"caption_mode is {mode!r}; allowed: each, join, cut (with max_pieces)")


def _cut(text: str, max_pieces: int) -> str:
    shown = ""
    for end in range(len(words := text.split(" ")), 0, -1):
        shown = " ".join(words[:end])
        if len(clip_pieces(shown)) <= max_pieces:
            return shown
    # Even the first word is too long: its first pieces, fewer where the cut word splits anew.
    pieces = clip_pieces(shown)[:max_pieces]
    while len(clip_pieces(clip_text(pieces))) > max_pieces:
        pieces = pieces[:-1]
    return clip_text(pieces)


# --- parquet ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    key: str
    image: bytes
    extension: str
    captions: list[str]
    label: Any


def _rows(source: Source, split: str, data_dir: Path, skipped: Counter[str]) -> Iterator[_Row]:
    """Rows of one split whose image can be decoded, streamed by row group."""
    import pyarrow.parquet

    image_column = source.get("image_column", "image")
    key_column = source.get("key_column")
    wanted = source.get("splits", {}).get(split, split)
    split_column = source.get("split_column", "split")
    number = 0
    for path in _split_files(source, split, data_dir):
        with _open(path) as file:
            names = set(file.schema_arrow.names)
            caption_column = _caption_column(source, names)
            label_column = source.get("label_column", "label")
            _need(path, names, image_column, key_column, split_column, source.get("caption_column"))
            if caption_column:
                _text_captions(path, file.schema_arrow.field(caption_column))
            columns = {image_column, key_column, split_column, caption_column, label_column} & names
            for group in range(file.num_row_groups):
                try:
                    rows = file.read_row_group(group, columns=sorted(columns))
                except (OSError, pyarrow.ArrowException) as error:
                    raise UserError(f"{path}: row group {group} cannot be read ({error})") from None
                for batch in rows.to_batches(max_chunksize=256):
                    for row in batch.to_pylist():
                        if split_column is not None and row[split_column] != wanted:
                            continue
                        # Numbered before anything is left out, so that a key names its row in the source.
                        key = f"{number:08d}" if key_column is None else safe_key(str(row[key_column]))
                        number += 1
                        image = row[image_column]
                        image = image.get("bytes") if isinstance(image, dict) else image
                        if not isinstance(image, bytes) or not image:
                            skipped["no image"] += 1
                            continue
                        try:
                            extension = image_extension(image)
                        except ImageError:
                            skipped["image cannot be decoded"] += 1
                            continue
                        texts = row.get(caption_column) if caption_column else None
                        texts = [texts] if isinstance(texts, str) else [text for text in texts or [] if text]
                        yield _Row(key, image, extension, texts, row.get(label_column))


def image_extension(image: bytes) -> str:
    """File extension of encoded bytes; ImageError unless they decode in full, so that no broken image trains."""
    from PIL import Image

    decode(image)
    with Image.open(io.BytesIO(image)) as opened:  # reads no more than the header
        return _EXTENSIONS.get(opened.format or "", "img")


def safe_key(name: str) -> str:
    """``name`` as a webdataset key: letters, digits, '-' and '_' stay, all else becomes '_' (a dot would end the key).

    A name of more than 80 characters keeps its last 80. Whether keys stay apart is checked where shards are written.
    """
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)[-80:] or "_"


def _caption_column(source: Source, names: set[str]) -> str | None:
    if source.get("caption_column"):
        return str(source["caption_column"])
    return next((name for name in ("captions", "caption") if name in names), None)


def _text_captions(path: Path, field: Any) -> None:
    import pyarrow.types as types

    inner = field.type.value_type if types.is_list(field.type) or types.is_large_list(field.type) else field.type
    if not (types.is_string(inner) or types.is_large_string(inner) or types.is_null(inner)):
        raise UserError(f"{path}: column '{field.name}' holds {field.type}; captions are texts or lists of texts")


def _need(path: Path, names: set[str], *columns: str | None) -> None:
    for column in columns:
        if column is not None and column not in names:
            raise UserError(f"{path}: has no column {column!r}; it has {', '.join(sorted(names))}")


def _files(source: Source, data_dir: Path) -> list[Path]:
    path = Path(data_dir) / source["path"]  # an absolute path wins
    if path.is_dir():
        found = sorted(path.rglob("*.parquet"))
        if not found:
            raise UserError(f"{path}: holds no .parquet file")
        return found
    if not path.is_file():
        raise UserError(
            f"{path}: no such file or folder; put the data there, or set MDC_DATA to the folder that has it"
        )
    return [path]


def _split_files(source: Source, split: str, data_dir: Path) -> list[Path]:
    """Files that can hold rows of a split: all, where a column names the split; else those named after it.

    Named after it: a folder ``<split>/``, a file ``<split>.parquet`` or ``<split>-….parquet`` (Hugging Face's habit).
    Where no file is named after any split, all of them are "train".
    """
    files = _files(source, data_dir)
    if source.get("split_column", "split") is not None:
        return files
    root = Path(data_dir) / source["path"]
    splits = {"train": "train", "val": "val", "test": "test", **source.get("splits", {})}

    def named(path: Path, name: str) -> bool:
        relative = path.relative_to(root) if path != root else Path(path.name)
        return name in relative.parts[:-1] or relative.stem == name or relative.stem.startswith(name + "-")

    if not any(named(path, name) for path in files for name in splits.values()):
        return files if split == "train" else []
    return [path for path in files if named(path, splits[split])]


def _open(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: not a readable parquet file ({error})") from None


def _class_table(source: Source, data_dir: Path) -> tuple[list[str], dict[Any, int]]:
    """Class names, and the number of each label value; over all rows, so that every split counts alike.

    Integer labels are their own number; their names come from ``class_name_column``, from Hugging Face's schema
    metadata, or are the numbers. Text labels are numbered alphabetically.
    """
    column, name_column = source.get("label_column", "label"), source.get("class_name_column")
    names_of: dict[Any, set[str]] = {}
    listed: list[str] = []
    # only the splits that are probed: a hub's unlabelled test split holds -1
    files = {path: None for split in ("train", "test") for path in _split_files(source, split, data_dir)}
    for path in files:
        with _open(path) as file:
            schema = file.schema_arrow
            _need(path, set(schema.names), column, name_column)
            _scalar_labels(path, schema.field(column))
            listed = listed or _listed_names(schema.metadata or {}, column)
            table = file.read(columns=[column] if name_column is None else [column, name_column])
        pairs = table.group_by(table.column_names).aggregate([]).to_pylist()
        for row in pairs:
            names_of.setdefault(row[column], set()).update([row[name_column]] if name_column else [])
    values = sorted(value for value in names_of if value is not None)
    if values and isinstance(values[0], str):
        return values, {value: number for number, value in enumerate(values)}
    if not values or values[0] < 0:
        raise UserError(f"{source['path']}: column {column!r} must hold class names or numbers from 0")
    names = listed or [str(value) for value in range(values[-1] + 1)]
    if len(names) <= values[-1]:
        raise UserError(f"{source['path']}: label {values[-1]} is outside the {len(names)} classes of its schema")
    for value in values:
        if name_column:
            if len(names_of[value]) != 1:
                raise UserError(
                    f"{source['path']}: label {value} has several names: {sorted(map(str, names_of[value]))}"
                )
            names[value] = str(*names_of[value])
    return names, {number: number for number in range(len(names))}


def _scalar_labels(path: Path, field: Any) -> None:
    import pyarrow.types as types

    if not (
        types.is_integer(field.type)
        or types.is_string(field.type)
        or types.is_large_string(field.type)
        or types.is_dictionary(field.type)
    ):
        raise UserError(
            f"{path}: column '{field.name}' holds {field.type}; a label is a whole number or a text "
            "(a missing number makes a column float: drop such rows)"
        )


def _listed_names(metadata: Mapping[bytes, bytes], column: str) -> list[str]:
    try:
        feature = json.loads(metadata[b"huggingface"])["info"]["features"][column]
        return [str(name) for name in feature["names"]]
    except (KeyError, TypeError, ValueError):
        return []


def _noun_table(source: Source, data_dir: Path) -> dict[str, tuple[str, ...]]:
    return _cached_nouns(json.dumps(dict(source), sort_keys=True), str(data_dir))


@lru_cache(maxsize=4)  # classes and both splits ask for the same table
def _cached_nouns(source_json: str, data_dir: str) -> dict[str, tuple[str, ...]]:
    source = json.loads(source_json)
    split_column = source.get("split_column", "split")
    wanted = source.get("splits", {}).get("vocabulary", "train")
    lists: list[list[str]] = []
    for path in _files(source, Path(data_dir)):
        with _open(path) as file:
            names = set(file.schema_arrow.names)
            column = _caption_column(source, names) or "captions"
            _need(path, names, column, split_column)
            for row in file.read(columns=[column, split_column]).to_pylist():
                if row[split_column] == wanted:
                    lists.append([row[column]] if isinstance(row[column], str) else [t for t in row[column] or [] if t])
    table = nouns.commonest_nouns(lists, int(source.get("count", 60)))
    if not table:
        raise UserError(f"{source['path']}: no nouns found in the captions of split {wanted!r}")
    return table


# --- digits -----------------------------------------------------------------------------------------------------------


def _digits(split: str, seed: int) -> Iterator[RawSample]:
    from PIL import Image
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    rows = np.arange(len(data.target))
    train, test = train_test_split(rows, test_size=DIGITS_TEST, stratify=data.target, random_state=seed)
    for row in sorted({"train": train, "test": test}[split].tolist()):
        pixels = np.rint(data.images[row] * (255 / 16)).astype(np.uint8).repeat(4, axis=0).repeat(4, axis=1)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG", compress_level=6)
        yield RawSample(f"{row:08d}", buffer.getvalue(), "png", label=int(data.target[row]))
