"""The verb ``mdc features``: features of a user's images by a run's encoder, as a parquet file.

An interrupted call resumes (:mod:`mdc.app.resumable`).
"""

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
from mdc.app.model import FEATURES, Model, load_from_args
from mdc.app.resumable import computed, fill, folder_beside, kept, parts_beside, processes_of
from mdc.data.formats.images import ImageError, center_resize, decode
from mdc.plan.records import UserError, atomic_path, sha256_file, sha256_json

_BATCH = 64


@dataclass(frozen=True)
class Pixels:
    """Images of a piece: ``keys``, their central crops (B, 3, S, S) uint8, and (key, reason) of unreadable ones."""

    keys: list[str]
    images: Tensor
    bad: list[tuple[str, str]]


@dataclass(frozen=True)
class EncodedPiece:
    """Features of a piece: ``keys``, (B, D) float32, and (key, reason) of unreadable images."""

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
    """One ``feature`` of a run's encoder, of FEATURES, with its ``width``."""

    def __init__(self, model: Model, feature: str) -> None:
        if feature == "embedding" and not model.job.method.embeds_captions:
            raise UserError(
                f"--feature embedding: {model.job.method_name} has none; allowed: {', '.join(FEATURES[:-1])}, or a CLIP run"
            )
        backbone = model.own_backbone  # fail before any image is read
        self.model, self.size = model, backbone.image_size
        self.feature = feature if feature != "probed" else model.probed
        self.width = backbone.embed_dim if feature == "embedding" else backbone.width

    def encode(self, pixels: Pixels) -> EncodedPiece:
        """Their features, in float32."""
        parts = [np.empty((0, self.width), np.float32)]
        for first in range(0, len(pixels.keys), _BATCH):
            encoded = self.model.encode_pixels(pixels.images[first : first + _BATCH])
            parts.append(getattr(encoded, self.feature).numpy())
        return EncodedPiece(pixels.keys, np.concatenate(parts), pixels.bad)


def main(args: argparse.Namespace) -> None:
    """``args``: run, images, out, feature, weights, processes, image_column, key_column, params, scale.

    UserError at the end if an image cannot be read.
    """
    import pyarrow.parquet as pq

    out = Path(args.out)
    if out.suffix != ".parquet":
        raise UserError(f"--out {out}: a parquet file, whose name ends in .parquet")
    processes = processes_of(args.processes)
    model = load_from_args(args)
    features = Features(model, args.feature)
    images = Path(args.images)
    pieces = pieces_of(images, args.image_column, args.key_column, apart_from=out)
    metadata = {
        "run": model.name,
        "weights": model.weights,
        "checkpoint_sha256": sha256_file(model.run.checkpoint),
        "config_sha256": model.job.sha256,
        "feature": features.feature,
        "image_size": str(features.size),
    }
    columns = [args.image_column, args.key_column]
    request = {**metadata, "images": sha256_json([_sealed(images, pieces), columns, [len(piece) for piece in pieces]])}
    if out.exists():
        existing = _metadata_of(out)
        if existing.get("asked") != sha256_json(request):
            raise UserError(f"--out {out}: already exists, for other images or another run; choose another file")
        shutil.rmtree(folder_beside(out), ignore_errors=True)  # left by a call that was killed after its last write
        print(f"{out}: already exists, for these images and this run")
        _complain(out, existing["unread"])
        return
    args.interrupted = partial(kept, out, ".parquet")
    with parts_beside(out, request, ".parquet", "is computing these features") as folder:
        decoded = partial(pixels_of, size=features.size)
        compute = partial(computed, decode=decoded, compute=features.encode, device=model.device, processes=processes)
        files = fill(folder, ".parquet", pieces, compute, _write, desc="features", unit="image")
        bad = [pair for file in files for pair in json.loads(pq.read_schema(file).metadata[b"bad"])]
        count = _merge(out, files, features.width, {**metadata, "asked": sha256_json(request), "unread": bad})
    print(f"{out}: {count} images, {features.feature} features of {model.name} ({model.weights} weights)")
    _complain(out, bad)


def _complain(out: Path, bad: Sequence[tuple[str, str]]) -> None:
    """UserError if images could not be read, also in a second call."""
    import pyarrow.parquet as pq

    if bad:
        count = pq.read_metadata(out).num_rows + len(bad)
        listed = "; ".join(f"{key} ({reason})" for key, reason in bad[:3])
        raise UserError(
            f"{len(bad)} of {count} images could not be read and are not in {out}: {listed}{'; …' * (len(bad) > 3)}"
        )


def _sealed(place: Path, pieces: Sequence[Piece]) -> list[list[Any]]:
    """Relative names, sizes and times of the files that are read, to detect changes."""
    paths = sorted({path for piece in pieces for path in piece.files()})
    return [[path.relative_to(place).as_posix(), (status := path.stat()).st_size, status.st_mtime_ns] for path in paths]


# --- files ------------------------------------------------------------------------------------------------------------


def _schema(width: int) -> Any:
    import pyarrow as pa

    return pa.schema([("key", pa.string()), ("features", pa.list_(pa.float32(), width))])


def _write(path: Path, encoded: EncodedPiece) -> None:
    """Write a piece's file, with unreadable images in its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(encoded.features.shape[1]).with_metadata({"bad": json.dumps(encoded.bad)})
    values = pa.FixedSizeListArray.from_arrays(pa.array(encoded.features.ravel()), encoded.features.shape[1])
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_arrays([pa.array(encoded.keys, pa.string()), values], schema=schema), temporary)


def _merge(out: Path, files: Sequence[Path], width: int, metadata: dict[str, Any]) -> int:
    """Merge all pieces into one file with a column of the checkpoint's hash; returns the number of images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(width).append(pa.field("run", pa.dictionary(pa.int32(), pa.string())))
    images = 0
    with (
        atomic_path(out) as temporary,
        pq.ParquetWriter(temporary, schema.with_metadata({"mdc": json.dumps(metadata)})) as file,
    ):
        for path in files:
            part = pq.read_table(path)
            run = pa.array([metadata["checkpoint_sha256"]] * len(part), schema.field("run").type)
            file.write_table(pa.Table.from_arrays([*part.columns, run], schema=file.schema))
            images += len(part)
    return images


def _metadata_of(out: Path) -> dict[str, Any]:
    """Our metadata of a parquet file; {} if it has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata: dict[str, Any] = json.loads((pq.read_schema(out).metadata or {})[b"mdc"])
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return {}
    return metadata
