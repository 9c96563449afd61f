"""The images of a parquet file by name, for choice sets whose images are not a folder of files."""

from __future__ import annotations

from pathlib import Path

from mdc.formats.parquet_file import open_parquet
from mdc.formats.samples import Skipped, checked_image
from mdc.records import UserError
from mdc.sources.parquet import need_columns, stream


def parquet_images(path: Path, image_column: str, name_column: str, skipped: Skipped) -> dict[str, tuple[bytes, str]]:
    """Name → (encoded bytes, extension) of every image that can be decoded; the others are counted as skipped.

    UserError if the file is missing, cannot be read, lacks a column, or has a name twice.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; put it there, or set MDC_DATA to the folder with it")
    found: dict[str, tuple[bytes, str]] = {}
    with open_parquet(path) as file:
        need_columns(path, set(file.schema_arrow.names), image_column, name_column)
        for row in stream(path, file, sorted({image_column, name_column})):
            name, image = str(row[name_column]), row[image_column]
            image = image.get("bytes") if isinstance(image, dict) else image
            if name in found:
                raise UserError(f"{path}: two rows have the {name_column} {name!r}; each image stands there once")
            checked = checked_image(image, skipped, name, path.name)
            if checked is not None:
                found[name] = checked
    return found
