"""The images of a parquet file by name, for choice sets whose images are not a folder of files."""

import tempfile
from pathlib import Path

from mdc.data.formats.parquet_file import open_parquet, parquet_rows
from mdc.data.formats.samples import Encoded, LeftOut, read_image
from mdc.plan.records import UserError


class StoredImages:
    """Name → (encoded bytes, extension). The images are in a temporary file (under TMPDIR), their positions in memory.
    ``broken``: why others cannot be read."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as this object)
        self._places: dict[str, tuple[int, int, str]] = {}
        self.broken: dict[str, LeftOut] = {}

    def add(self, name: str, image: bytes, extension: str) -> None:
        """Store the image of a new name."""
        self._places[name] = self._file.seek(0, 2), len(image), extension
        self._file.write(image)

    def __contains__(self, name: str) -> bool:
        return name in self._places or name in self.broken

    def read(self, name: str) -> Encoded:
        """(encoded bytes, extension). LeftOut if the image is missing or broken."""
        if name not in self._places:
            raise self.broken.get(name, LeftOut("image is missing"))
        offset, size, extension = self._places[name]
        self._file.seek(offset)
        return self._file.read(size), extension


def parquet_images(path: Path, image_column: str, name_column: str) -> StoredImages:
    """All images by name. UserError if the file is missing, cannot be read, lacks a column, or has a name twice."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; put it there, or set MDC_DATA to the folder with it")
    images = StoredImages()
    with open_parquet(path) as file:
        for row in parquet_rows(path, file, [image_column, name_column]):
            name, image = str(row[name_column]), row[image_column]
            if name in images:
                raise UserError(f"{path}: two rows have the {name_column} {name!r}; each image must be listed once")
            try:
                images.add(name, *read_image(image.get("bytes") if isinstance(image, dict) else image))
            except LeftOut as left:
                images.broken[name] = left
    return images
