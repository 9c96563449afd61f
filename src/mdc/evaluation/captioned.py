"""Images to be captioned, with their references and, for rendered scenes, the truth."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mdc.data.formats.images import decode_named
from mdc.data.shards.index import ShardReader, read_index
from mdc.plan.records import UserError


@dataclass(frozen=True)
class Captioned:
    """The first images of a split. ``truths``: of a scene (see :meth:`mdc.data.scenes.world.Scene.from_json`), else None."""

    reader: ShardReader
    keys: list[str]
    references: list[list[str]]
    truths: list[dict[str, Any] | None]
    shards: list[str]  # their hashes

    @classmethod
    def open(cls, path: Path, split: str, count: int) -> "Captioned":
        """UserError if the corpus lacks the split or has fewer than two images in it."""
        index = read_index(path, verify="auto", kind="corpus")
        if split not in index["splits"]:
            raise UserError(f"{path}: has no split {split} to caption; it has {', '.join(index['splits'])}")
        reader = ShardReader(path, split)
        # keys and records alone: the images would fill the memory
        samples = [(key, record) for n in range(min(count, len(reader))) for key, _, record in [reader.read(n)]]
        if len(samples) < 2:
            raise UserError(f"{path}: {len(samples)} images in {split}; at least two are needed")
        shards = [shard["sha256"] for shard in index["splits"][split]["shards"]]
        references = [list(record["captions"]) for _, record in samples]
        return cls(
            reader, [key for key, _ in samples], references, [record.get("truth") for _, record in samples], shards
        )

    def __len__(self) -> int:
        return len(self.keys)

    def image(self, number: int) -> Image.Image:
        """UserError if it cannot be read."""
        key, data, _ = self.reader.read(number)
        return decode_named(data, f"image {key}")

    def other(self, number: int, seed: int) -> int:
        """The mismatched image of image ``number``: a fixed shift round the end, so each image is used once."""
        step = 1 + int(np.random.default_rng([seed, 3]).integers(len(self) - 1))
        return (number + step) % len(self)
