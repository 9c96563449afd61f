"""The images of a parquet file by name, for choice sets whose images are not a folder of files."""

import tempfile
from pathlib import Path

from mdc.data.formats.folders import needed
from mdc.data.formats.parquet_file import open_parquet, parquet_rows
from mdc.data.formats.samples import Encoded, LeftOut, read_image
from mdc.plan.records import UserError


class StoredImages:
    """Name → (encoded bytes, extension). The images are in a temporary file (under TMPDIR), in memory are their positions, or why
    an image cannot be read."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as this object)
        self._places: dict[str, tuple[int, int, str] | LeftOut] = {}

    def add(self, name: str, image: object) -> None:
        """Store the image of a new name, as of ``read_image``."""
        try:
            data, extension = read_image(image)
            self._places[name] = self._file.seek(0, 2), len(data), extension
            self._file.write(data)
        except LeftOut as left:
            self._places[name] = left

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def read(self, name: str) -> Encoded:
        """(encoded bytes, extension). LeftOut if the image is missing or broken."""
        place = self._places.get(name, LeftOut("image is missing"))
        if isinstance(place, LeftOut):
            raise place
        offset, size, extension = place
        self._file.seek(offset)
        return self._file.read(size), extension


def parquet_images(path: Path, image_column: str, name_column: str) -> StoredImages:
    """All images by name. UserError if the file is missing, cannot be read, lacks a column, or has a name twice."""
    images = StoredImages()
    with open_parquet(needed(path, "file")) as file:
        for row in parquet_rows(path, file, [image_column, name_column]):
            if (name := str(row[name_column])) in images:
                raise UserError(f"{path}: two rows have the {name_column} {name!r}; each image must be listed once")
            images.add(name, row[image_column])
    return images
