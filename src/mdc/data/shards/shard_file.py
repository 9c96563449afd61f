"""Writes one shard of any set: its tar or its lines, its offsets, and its entry in an index."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mdc.data.formats.rank import hash64
from mdc.data.formats.samples import RawSample
from mdc.data.formats.tar import TarWriter
from mdc.data.shards.image_hashes import NONE, difference_hash
from mdc.data.shards.lines import SourceTar, sample_line
from mdc.data.shards.offsets import offsets_name, write_offsets
from mdc.plan.records import atomic_path, sha256_file


class NewShard:
    """Appends samples as files of a tar or, if their images are in the tar ``source``, as lines. ``bounds``: the byte at which
    each begins, and the end of the last; ``keys`` and ``images``: 64 bits of each key's and image's hash; ``looks``: each image's
    difference hash (:mod:`mdc.data.shards.image_hashes`), zero for rendered scenes, which are alike on purpose."""

    def __init__(self, file: BinaryIO, source: SourceTar | None = None) -> None:
        self._file, self._tar = file, TarWriter(file) if source is None else None
        if source is not None:
            file.write(source.line())
        self.bounds, self.keys, self.images, self.looks = array("q", [file.tell()]), array("Q"), array("Q"), array("Q")
        self.entry: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, sample: RawSample, beside: Sequence[tuple[str, bytes]]) -> None:
        """Append a sample: its image, and its other files ``beside`` it as (extension, content)."""
        if self._tar is None:
            assert sample.place is not None
            self._file.write(sample_line(sample.key, sample.place, dict(beside)["json"]))
        else:
            for extension, content in ((sample.extension, sample.image), *beside):
                self._tar.add(f"{sample.key}.{extension}", content)
        self.keys.append(key_hash(sample.key))
        self.images.append(hash64(sample.image))
        self.looks.frombytes(difference_hash(sample.image) if sample.truth is None else NONE)
        self.bounds.append(self._file.tell())

    def close(self) -> None:
        if self._tar is not None:
            self._tar.close()


@contextmanager
def new_shard(path: Path, source: SourceTar | None = None) -> Iterator[NewShard]:
    """A shard at ``path`` with its offsets beside it, written when the block ends without error; ``entry`` describes it then."""
    with atomic_path(path) as temporary:
        with temporary.open("wb") as file:
            shard = NewShard(file, source)
            yield shard
            shard.close()
        description = {"bytes": temporary.stat().st_size, "sha256": sha256_file(temporary)}
    offsets = write_offsets(path.with_name(offsets_name(path.name)), shard.bounds)
    shard.entry |= {"file": path.name, "samples": len(shard), **description, "offsets": offsets}


def key_hash(key: str) -> int:
    """64 bits by which repeated keys are found."""
    return hash64(key.encode())
