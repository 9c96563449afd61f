"""Writes one shard of any set: its tar or its lines, its offsets, and its entry in an index."""

import json
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mdc.data.formats.samples import RawSample, hash64
from mdc.data.formats.tar import TarWriter
from mdc.data.shards.image_hashes import NONE, difference_hash
from mdc.data.shards.lines import SourceTar, sample_line
from mdc.data.shards.offsets import file_entry, offsets_name, write_offsets
from mdc.plan.records import atomic_path

HASHES = ("keys", "images", "looks")


class NewShard:
    """Appends samples as files of a tar or, if their images are in the tar ``source``, as lines. ``bounds``: the byte at which
    each begins, and the end of the last. ``hashes``: ``keys`` and ``images``, 64 bits of each key's and image's hash; ``looks``,
    each image's difference hash (:mod:`mdc.data.shards.image_hashes`), zero for rendered scenes, which are alike on purpose."""

    def __init__(self, file: BinaryIO, source: SourceTar | None = None) -> None:
        self._file, self._tar = file, TarWriter(file) if source is None else None
        if source is not None:
            file.write(source.line())
        self.bounds = array("q", [file.tell()])
        self.hashes = {kind: array("Q") for kind in HASHES}
        self.entry: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def add(self, sample: RawSample, record: dict[str, Any]) -> None:
        """Append a sample: its image, its ``record`` and, for users of webdataset, its first caption."""
        if sample.truth is not None:
            record["truth"] = sample.truth
        canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        if self._tar is None:
            assert sample.place is not None
            self._file.write(sample_line(sample.key, sample.place, canonical))
        else:
            self._tar.add(f"{sample.key}.{sample.extension}", sample.image)
            self._tar.add(f"{sample.key}.json", canonical)
            if sample.captions:
                self._tar.add(f"{sample.key}.txt", sample.captions[0].encode("utf-8", errors="replace"))
        self.hashes["keys"].append(key_hash(sample.key))
        self.hashes["images"].append(hash64(sample.image))
        self.hashes["looks"].frombytes(difference_hash(sample.image) if sample.truth is None else NONE)
        self.bounds.append(self._file.tell())

    def close(self) -> None:
        if self._tar is not None:
            self._tar.close()


@contextmanager
def new_shard(path: Path, source: SourceTar | None = None) -> Iterator[NewShard]:
    """A shard at ``path`` with its offsets beside it, written when the block ends without error; ``entry`` describes it then."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        shard = NewShard(file, source)
        yield shard
        shard.close()
    offsets = write_offsets(path.with_name(offsets_name(path.name)), shard.bounds)
    shard.entry |= {"samples": len(shard), **file_entry(path), "offsets": offsets}


def key_hash(key: str) -> int:
    """64 bits by which repeated keys are found."""
    return hash64(key.encode())
