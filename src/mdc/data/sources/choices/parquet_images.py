"""The images of a parquet file by name, for choice sets whose images are not a folder of files."""

import tempfile
from pathlib import Path

from mdc.data.formats.parquet_file import open_parquet
from mdc.data.formats.samples import Skipped, checked_image
from mdc.data.sources.parquet import IMAGES, need_columns, stream
from mdc.plan.records import UserError


class StoredImages:
    """Name → (encoded bytes, extension). The images are in a temporary file (under TMPDIR), their positions in memory."""

    def __init__(self, skipped: Skipped) -> None:
        self._skipped = skipped
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as this object)
        self._places: dict[str, tuple[int, int, str]] = {}

    def add(self, name: str, image: bytes, extension: str) -> None:
        """Store the image of a new name."""
        self._places[name] = self._file.seek(0, 2), len(image), extension
        self._file.write(image)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> tuple[bytes, str]:
        offset, size, extension = self._places[name]
        self._file.seek(offset)
        return self._file.read(size), extension

    def read(self, key: str, name: str) -> tuple[bytes, str] | None:
        """(encoded bytes, extension); None if the image is missing: sample ``key`` is left out."""
        if name in self:
            return self[name]
        self._skipped.add("image is missing", key, name)
        return None


def parquet_images(path: Path, image_column: str, name_column: str, skipped: Skipped) -> StoredImages:
    """All decodable images by name; the others are counted as skipped.

    UserError if the file is missing, cannot be read, lacks a column, or has a name twice.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; put it there, or set MDC_DATA to the folder with it")
    images = StoredImages(skipped)
    with open_parquet(path) as file:
        need_columns(path, file.schema_arrow.names, image_column, name_column)
        for row in stream(path, file, sorted({image_column, name_column}), IMAGES):
            name = str(row[name_column])
            if name in images:
                raise UserError(f"{path}: two rows have the {name_column} {name!r}; each image must be listed once")
            if (checked := checked_image(row[image_column], skipped, name, path.name)) is not None:
                images.add(name, *checked)
    return images
