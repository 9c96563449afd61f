"""The verb ``mdc features``: what a run's encoder makes of anybody's images, as a parquet file.

An interrupted call resumes (:mod:`mdc.app.kept_parts`).
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mdc.app.export.pictures import Piece, pieces_of
from mdc.app.kept_parts import computed, fill, folder_beside, kept, parts_beside, processes_of
from mdc.app.model import FEATURES, Model, load_asked
from mdc.data.formats.images import ImageError, center_resize, decode
from mdc.plan.records import UserError, atomic_path, sha256_file, sha256_json

_BATCH = 64


@dataclass(frozen=True)
class Pixels:
    """Images of a piece: ``keys``, their central crops (B, 3, S, S) uint8, and of those that cannot be read key and reason."""

    keys: list[str]
    images: Tensor
    bad: list[tuple[str, str]]


@dataclass(frozen=True)
class Found:
    """Of a piece: ``keys``, their features (B, D) float32, and what could not be read."""

    keys: list[str]
    features: np.ndarray[Any, np.dtype[np.float32]]
    bad: list[tuple[str, str]]


def pixels_of(piece: Piece, size: int) -> Pixels:
    """The images of a piece, ``size`` pixels a side."""
    keys, crops, bad = [], [], []
    for key, data in piece.read():
        try:
            if isinstance(data, str):
                raise ImageError(data)
            crops.append(center_resize(decode(data), size))
            keys.append(key)
        except ImageError as error:
            bad.append((key, str(error)))
    stacked = np.stack(crops) if crops else np.empty((0, size, size, 3), dtype=np.uint8)
    return Pixels(keys, torch.from_numpy(stacked).permute(0, 3, 1, 2), bad)


class Features:
    """One ``feature`` of a run's encoder, of FEATURES; ``width``: numbers of it."""

    def __init__(self, model: Model, feature: str) -> None:
        if feature == "embedding" and model.job.method.objective != "contrastive":
            raise UserError(
                f"--feature embedding: {model.job.method_name} has none; allowed: {', '.join(FEATURES[:-1])}, or a CLIP run"
            )
        backbone = model.own_backbone  # refused, if it has none, before any image is read
        self.model, self.size = model, backbone.image_size
        self.feature = feature if feature != "probed" else model.probed
        self.width = backbone.embed_dim if feature == "embedding" else backbone.width

    def encode(self, pixels: Pixels) -> Found:
        """Their features, in float32."""
        found = [np.empty((0, self.width), np.float32)]
        for first in range(0, len(pixels.keys), _BATCH):
            encoded = self.model.encode_pixels(pixels.images[first : first + _BATCH])
            found.append(getattr(encoded, self.feature).numpy())
        return Found(pixels.keys, np.concatenate(found), pixels.bad)


def main(args: argparse.Namespace) -> None:
    """``args``: run, images, out, feature, weights, processes, image_column, key_column, params, scale.

    UserError, after all others were encoded, if an image cannot be read.
    """
    import pyarrow.parquet as pq

    out = Path(args.out)
    if out.suffix != ".parquet":
        raise UserError(f"--out {out}: a parquet file, whose name ends in .parquet")
    processes = processes_of(args.processes)
    model = load_asked(args)
    features = Features(model, args.feature)
    images = Path(args.images)
    pieces = pieces_of(images, args.image_column, args.key_column, apart_from=out)
    told = {
        "run": model.name,
        "weights": model.weights,
        "checkpoint_sha256": sha256_file(model.run.checkpoint),
        "config_sha256": model.job.sha256,
        "feature": features.feature,
        "image_size": str(features.size),
    }
    columns = [args.image_column, args.key_column]
    asked = {**told, "images": sha256_json([_sealed(images, pieces), columns, [len(piece) for piece in pieces]])}
    if out.exists():
        found = _told(out)
        if found.get("asked") != sha256_json(asked):
            raise UserError(f"--out {out}: already exists, for other images or another run; choose another file")
        shutil.rmtree(folder_beside(out), ignore_errors=True)  # of a call that was ended between its last two acts
        print(f"{out}: already exists, for these images and this run")
        _complain(out, found["unread"])
        return
    args.interrupted = partial(kept, out, ".parquet")
    with parts_beside(out, asked, ".parquet", "is computing these features") as folder:
        decoded = partial(pixels_of, size=features.size)
        compute = partial(computed, decode=decoded, compute=features.encode, device=model.device, processes=processes)
        files = fill(folder, ".parquet", pieces, compute, _write, desc="features", unit="image")
        bad = [pair for file in files for pair in json.loads(pq.read_schema(file).metadata[b"bad"])]
        count = _whole(out, files, features.width, {**told, "asked": sha256_json(asked), "unread": bad})
    print(f"{out}: {count} images, {features.feature} features of {model.name} ({model.weights} weights)")
    _complain(out, bad)


def _complain(out: Path, bad: Sequence[tuple[str, str]]) -> None:
    """UserError if images could not be read; a second call says it again, since they are still missing."""
    import pyarrow.parquet as pq

    if bad:
        count = pq.read_metadata(out).num_rows + len(bad)
        shown = "; ".join(f"{key} ({why})" for key, why in bad[:3])
        raise UserError(
            f"{len(bad)} of {count} images could not be read and are not in {out}: {shown}{'; …' * (len(bad) > 3)}"
        )


def _sealed(place: Path, pieces: Sequence[Piece]) -> list[list[Any]]:
    """Names below ``place``, sizes and times of the files that are read, by which another state of them is told, whatever the
    folder is called and whatever else lies there."""
    paths = sorted({path for piece in pieces for path in piece.files()})
    return [[path.relative_to(place).as_posix(), (status := path.stat()).st_size, status.st_mtime_ns] for path in paths]


# --- files ------------------------------------------------------------------------------------------------------------


def _schema(width: int) -> Any:
    import pyarrow as pa

    return pa.schema([("key", pa.string()), ("features", pa.list_(pa.float32(), width))])


def _write(path: Path, found: Found) -> None:
    """A piece's file, with what could not be read in its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(found.features.shape[1]).with_metadata({"bad": json.dumps(found.bad)})
    values = pa.FixedSizeListArray.from_arrays(pa.array(found.features.ravel()), found.features.shape[1])
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_arrays([pa.array(found.keys, pa.string()), values], schema=schema), temporary)


def _whole(out: Path, files: Sequence[Path], width: int, told: dict[str, Any]) -> int:
    """All pieces in one file, which says of each image by which checkpoint its features are; how many images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(width).append(pa.field("run", pa.dictionary(pa.int32(), pa.string())))
    images = 0
    with (
        atomic_path(out) as temporary,
        pq.ParquetWriter(temporary, schema.with_metadata({"mdc": json.dumps(told)})) as file,
    ):
        for path in files:
            part = pq.read_table(path)
            run = pa.array([told["checkpoint_sha256"]] * len(part), schema.field("run").type)
            file.write_table(pa.Table.from_arrays([*part.columns, run], schema=file.schema))
            images += len(part)
    return images


def _told(out: Path) -> dict[str, Any]:
    """What a file says of itself; {} of one that is not ours."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found: dict[str, Any] = json.loads((pq.read_schema(out).metadata or {})[b"mdc"])
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return {}
    return found
