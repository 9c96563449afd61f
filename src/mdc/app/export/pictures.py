"""A user's images in pieces: a folder of image files, parquet files with an image column, or webdataset shards (tar).

A piece is encoded at a time, and kept if the work is interrupted. Pieces depend on the files alone. Hidden files are left out.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import files_below
from mdc.data.formats.foreign_tar import samples_by_key
from mdc.data.formats.parquet_file import open_parquet, readable
from mdc.data.formats.samples import IMAGE_ENDINGS
from mdc.data.formats.tar import MAX_FILE
from mdc.plan.data_folder import Links
from mdc.plan.records import UserError

_FILES, _ROWS, _SAMPLES = 256, 1024, 256  # of a piece
_BATCH = 64
#: default names of columns of images and of keys
_IMAGE_COLUMNS, _KEY_COLUMNS = ("image", "jpg", "png", "img", "bytes"), ("key", "__key__", "id", "image_id")

#: (key, encoded bytes), or (key, why there are none)
Read = tuple[str, bytes | str]


@dataclass(frozen=True)
class Files:
    """Image files below ``root``; their names below it are their keys."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def files(self) -> list[Path]:
        return [self.root / name for name in self.names]

    def read(self) -> Iterator[Read]:
        for name in self.names:
            plain = name.encode(errors="backslashreplace").decode()
            if plain != name:
                yield plain, "its name is not UTF-8, and keys must be"
                continue
            try:
                path = self.root / name
                yield name, path.read_bytes() if path.stat().st_size <= MAX_FILE else _too_large(path.stat().st_size)
            except OSError as error:
                yield name, error.strerror or str(error)


@dataclass(frozen=True)
class Rows:
    """``count`` rows of a row ``group`` of a parquet ``file``, from ``first`` on. A key is ``prefix`` and the value of the
    column ``key``, or else the row's number in the file."""

    file: Path
    prefix: str
    group: int
    before: int
    first: int
    count: int
    image: str
    key: str | None

    def __len__(self) -> int:
        return self.count

    def files(self) -> list[Path]:
        return [self.file]

    def read(self) -> Iterator[Read]:
        columns = [self.image, *([self.key] if self.key else [])]
        with open_parquet(self.file) as parquet, readable(self.file, "damaged"):
            batches = parquet.iter_batches(_BATCH, row_groups=[self.group], columns=columns)
            rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, row in itertools.islice(enumerate(rows), self.first, self.first + self.count):
                name = row[self.key] if self.key else self.before + number
                yield f"{self.prefix}{name}", _bytes_of(row[self.image])


@dataclass(frozen=True)
class Samples:
    """Samples of a webdataset ``shard``: (key, offset, bytes) of each one's image."""

    shard: Path
    places: tuple[tuple[str, int, int], ...]

    def __len__(self) -> int:
        return len(self.places)

    def files(self) -> list[Path]:
        return [self.shard]

    def read(self) -> Iterator[Read]:
        with self.shard.open("rb") as file:
            for key, offset, size in self.places:
                file.seek(offset)
                yield key, file.read(size) if size <= MAX_FILE else _too_large(size)


#: so many images, read in their order
Piece = Files | Rows | Samples


def pieces_of(place: Path, image: str | None, key: str | None, *, apart_from: Path | None = None) -> list[Piece]:
    """All images of ``place``: a folder of images, of .parquet files or of .tar files, or one such file.

    ``image`` and ``key``: columns of parquet files; ``apart_from``: a file of the folder that does not belong to them. UserError
    if there are none, if kinds are mixed, and for files that cannot be read as what they are called.
    """
    if place.is_file():
        kind = place.suffix
        if kind not in (".parquet", ".tar"):
            raise UserError(f"{place}: allowed: a folder of images, or .parquet or .tar files, or a folder of either")
        return _rows(place, "", image, key) if kind == ".parquet" else _samples(place, "")
    if not place.is_dir():
        raise UserError(f"{place}: no such file or folder")
    by_kind: dict[str, list[Path]] = {}
    for path in sorted(files_below(place, links := Links())):
        ending = path.suffix.lower().removeprefix(".")
        if apart_from is not None and path.resolve() == apart_from.resolve():
            continue
        if path.is_file() and ending in {"parquet", "tar", *IMAGE_ENDINGS}:
            by_kind.setdefault(ending if ending in ("parquet", "tar") else "images", []).append(path)
    links.say(place)
    if len(by_kind) != 1:
        content = ", ".join(f"{len(paths)} {kind}" for kind, paths in by_kind.items()) or "none"
        raise UserError(
            f"{place}: needed: images, or .parquet files, or .tar files, of one kind alone; it holds {content}"
        )
    ((kind, paths),) = by_kind.items()
    names = [path.relative_to(place).as_posix() for path in paths]
    if kind == "images":
        return [Files(place, tuple(names[first : first + _FILES])) for first in range(0, len(names), _FILES)]
    listed: list[Piece] = []
    for path, name in zip(paths, names, strict=True):
        listed += _rows(path, f"{name}/", image, key) if kind == "parquet" else _samples(path, f"{name}/")
    return listed


def _rows(path: Path, prefix: str, image: str | None, key: str | None) -> list[Piece]:
    with open_parquet(path) as parquet:
        names = parquet.schema_arrow.names
        sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        for option, column in (("--image-column", image), ("--key-column", key)):
            if column is not None and column not in names:
                raise UserError(f"{option} {column}: {path} has no such column; it has {', '.join(names)}")
        chosen = image or next((name for name in _IMAGE_COLUMNS if name in names), None)
        if chosen is None:
            raise UserError(f"{path}: which column holds the images? --image-column; it has {', '.join(names)}")
        if key is not None and (problem := _no_keys(path, parquet, key)):
            raise UserError(
                f"--key-column {key}: {path}: {problem}; allowed: a column of texts or whole numbers, each once"
            )
        usual = [name for name in _KEY_COLUMNS if name in names]
        keys = key or next((name for name in usual if not _no_keys(path, parquet, name)), None)
    pieces: list[Piece] = []
    before = 0
    for group, size in enumerate(sizes):
        for first in range(0, size, _ROWS):
            pieces.append(Rows(path, prefix, group, before, first, min(_ROWS, size - first), chosen, keys))
        before += size
    return pieces


def _no_keys(path: Path, parquet: Any, column: str) -> str:
    """Why a column's values are no unique keys, "" if they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = parquet.schema_arrow.field(column).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
        return f"it contains {kind}"
    with readable(path, "damaged"):
        values = parquet.read(columns=[column])[column]
    if values.null_count:
        return f"{values.null_count} of {len(values)} rows have none"
    counts = pc.value_counts(values)
    if len(counts) < len(values):
        repeated = next(count for count in counts.to_pylist() if count["counts"] > 1)
        return f"{repeated['counts']} rows have {repeated['values']!r}"
    return ""


def _samples(path: Path, prefix: str) -> list[Piece]:
    places = []
    for sample in samples_by_key(path):
        # hidden files are passed over already, those of hidden folders are not
        hidden = any(part.startswith(".") and part != "." for part in sample.key.split("/"))
        ending = next((name for name in sample.files if name.rpartition(".")[2] in IMAGE_ENDINGS), None)
        if ending is not None and not hidden:
            places.append((f"{prefix}{sample.key}", *sample.files[ending]))
    if not places:
        raise UserError(f"{path}: no sample has an image; expected one of: {', '.join(sorted(IMAGE_ENDINGS))}")
    return [Samples(path, tuple(places[first : first + _SAMPLES])) for first in range(0, len(places), _SAMPLES)]


def _bytes_of(value: Any) -> bytes | str:
    if isinstance(value, dict):  # as the datasets library writes images
        value = value.get("bytes")
    if not isinstance(value, bytes):
        return f"not an image but {type(value).__name__}"
    return value if len(value) <= MAX_FILE else _too_large(len(value))


def _too_large(size: int) -> str:
    return f"{size} bytes, at most {MAX_FILE} allowed"
