"""Images a second through the loader's whole path on one core, against bare decoding and resizing to 224 of the same.

The photos come from a parquet file (a column ``image``, captions if it has any), scaled to 256 pixels at the shorter
side with a little film grain, and stored as JPEGs; without such a file they are made by this script. The whole path
is what training runs: read from shards, decode, random crop, resize, tokens, batch. Seconds are of processor time, so
that other work on the machine counts little; the parts take turns, round by round, and a number is the median over the
rounds, a share that of shares within a round. Aim: the whole path at 85 % or more of the bare one with the same decoder
and resizer.

    python bench/loader.py --photos data/flickr8k.parquet
"""

import argparse
import io
import os
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np
import pyarrow.parquet as pq
import rows
import torch
from PIL import Image
from torchvision.io import decode_jpeg
from tqdm import tqdm
from turns import rates

from mdc.data.formats import images
from mdc.data.formats.pixels import crop_box
from mdc.data.loader import batches as loader
from mdc.data.loader.batches import CaptionBatches
from mdc.data.shards.corpus_job import write_corpus
from mdc.data.sources.source import open_corpus
from mdc.models.text import Vocabulary
from mdc.plan.config.kinds.sources import ParquetCorpus
from mdc.plan.data_folder import data_folder

SIZE, SHORTER, BATCH = 224, 256, 64
OURS = "whole: Pillow, torch"  # what training runs
Part = Callable[[], int]  # does its work once over, returns how many images that were


def photos_of(path: Path | None, count: int) -> Iterator[tuple[Image.Image, list[str]]]:
    """``count`` photos with their captions: of a parquet file, or drawn (smooth colours, edges, noise)."""
    rng = np.random.default_rng(0)
    if path is None:
        for number in range(count):
            small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            smooth = np.asarray(small.resize((640, 480), Image.Resampling.BICUBIC)).astype(np.int16)
            for _ in range(12):
                x, y = rng.integers(0, 600), rng.integers(0, 440)
                smooth[y : y + rng.integers(8, 160), x : x + rng.integers(8, 160)] += rng.integers(-70, 70, 3)
            yield Image.fromarray(smooth.clip(0, 255).astype(np.uint8)), [f"a drawn photo, number {number}, of blocks"]
        return
    with pq.ParquetFile(path) as file:
        columns = ["image", *(name for name in ("captions",) if name in file.schema_arrow.names)]
        rows = (row for batch in file.iter_batches(256, columns=columns) for row in batch.to_pylist())
        for _, row in zip(range(count), rows, strict=False):
            yield images.decode(row["image"]), row.get("captions") or ["a photo"]


def jpegs(path: Path | None, count: int, quality: int, seed: int = 1) -> Iterator[tuple[bytes, list[str]]]:
    """The photos as JPEGs with ``SHORTER`` pixels at the shorter side, most of them 4 : 3 or 3 : 4."""
    rng = np.random.default_rng(seed)
    shapes = [(SHORTER * 4 // 3, SHORTER), (SHORTER * 3 // 2, SHORTER), (SHORTER, SHORTER * 4 // 3), (SHORTER, SHORTER)]
    for number, (image, captions) in enumerate(photos_of(path, count)):
        pixels = np.asarray(image.resize(shapes[number % 4], Image.Resampling.BICUBIC)).astype(np.float32)
        grain = rng.normal(0, 4, (*pixels.shape[:2], 1))  # enlarged photos are too smooth, so too quick to decode
        buffer = io.BytesIO()
        Image.fromarray((pixels + grain).clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=quality)
        yield buffer.getvalue(), captions


def corpus_of(data: list[tuple[bytes, list[str]]], folder: Path, per_shard: int = 10_000) -> Path:
    """The JPEGs as a corpus of our own shards."""
    import pyarrow as pa

    columns = {"image": [image for image, _ in data], "captions": [captions for _, captions in data]}
    pq.write_table(pa.table(columns), folder / "photos.parquet")
    source = ParquetCorpus(kind="parquet", path="photos.parquet", split_column=None).complete()
    origin = open_corpus(source, folder)
    write_corpus("photos", origin, folder / "corpus", splits=("train",), samples_per_shard=per_shard)
    return folder / "corpus"


# --- what is compared -------------------------------------------------------------------------------------------------


def pillow(data: bytes) -> Image.Image:
    image: Image.Image = Image.open(io.BytesIO(data))
    image.load()
    return image


def opencv(data: bytes) -> torch.Tensor:
    return torch.from_numpy(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB))


def vision(data: bytes) -> torch.Tensor:
    return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8)).permute(1, 2, 0)


def by_pillow(image: Image.Image) -> np.ndarray:
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BICUBIC))


def by_torch(pixels: torch.Tensor) -> torch.Tensor:
    planes = pixels.permute(2, 0, 1)[None]
    return torch.nn.functional.interpolate(planes, (SIZE, SIZE), mode="bicubic", antialias=True)


def pillow_tensor(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.array(pillow(data)))


def bare_ways(data: list[bytes]) -> dict[str, Part]:
    """Every decoder alone, and every pair of decoder and resizer."""

    def each(decode: Callable[[bytes], Any]) -> Part:
        def part() -> int:
            for image in data:
                decode(image)
            return len(data)

        return part

    variants: dict[str, Callable[[bytes], Any]] = {
        "decode: Pillow": pillow,
        "decode: torchvision": vision,
        "decode: OpenCV": opencv,
        "bare: Pillow, Pillow": lambda image: by_pillow(pillow(image)),
        "bare: Pillow, torch": lambda image: by_torch(pillow_tensor(image)),
        "bare: torchvision, torch": lambda image: by_torch(vision(image)),
        "bare: OpenCV, torch": lambda image: by_torch(opencv(image)),
    }
    try:
        import simplejpeg

        variants["decode: simplejpeg"] = simplejpeg.decode_jpeg
    except ImportError:
        pass
    return {name: each(decode) for name, decode in variants.items()}


def vision_checked(data: bytes) -> torch.Tensor:
    """torchvision's decoder as the loader would use it: after Pillow has read and refused by the header."""
    image = images._opened(data, images.MAX_PIXELS, images.MAX_ASPECT)
    assert image.format == "JPEG" and image.mode == "RGB" and "exif" not in image.info
    return vision(data)


def pillow_crop(pixels: torch.Tensor, size: int, uniforms: list[float], *ranges: Any) -> torch.Tensor:
    """Crop and resize in Pillow: what torchvision's transform does with a PIL image (and a copy more, to and fro)."""
    box = crop_box(pixels.shape[1], pixels.shape[0], uniforms, *ranges)
    image = Image.fromarray(pixels.numpy()).crop(box).resize((size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def whole_ways(corpus: Path) -> dict[str, Part]:
    """Our whole path as it is, with another decoder, and with Pillow in the place of the resizer."""
    # pixels that fit into memory would be decoded once alone; here every epoch decodes
    with patch.object(loader, "KEPT", 0):
        batches = CaptionBatches(
            corpus,
            "train",
            Vocabulary.full(),
            image_size=SIZE,
            batch_size=BATCH,
            seed=0,
            steps=1 << 30,
            crop_scale=(0.9, 1.0),
            crop_ratio=(3 / 4, 4 / 3),
            context_length=77,
        )
    steps = iter(batches)  # epoch after epoch, each with other crops and captions, as in training

    def run() -> int:
        return sum(len(next(steps)) for _ in range(batches.steps_per_epoch))

    def with_vision() -> int:
        with patch.object(loader, "decode_pixels", vision_checked):
            return run()

    def all_pillow() -> int:
        with patch.object(loader, "random_resized_crop", pillow_crop):
            return run()

    return {OURS: run, "whole: torchvision, torch": with_vision, "whole: Pillow, Pillow": all_pillow}


def compare(args: argparse.Namespace) -> None:
    warnings.filterwarnings("ignore", message="The image decoding and encoding")  # it is to be given up, at every call
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    path = args.photos or data_folder() / "flickr8k.parquet"
    photos = path if path.is_file() else None
    data = list(tqdm(jpegs(photos, args.count, args.quality), total=args.count, desc="photos", disable=None))
    size = statistics.mean(len(image) for image, _ in data) / 1000
    what = "photos" if photos else "drawn photos"
    print(f"{len(data)} {what}, {SHORTER} pixels at the shorter side, quality {args.quality}, {size:.0f} kB on average")
    with tempfile.TemporaryDirectory() as folder:
        parts = bare_ways([image for image, _ in data]) | whole_ways(corpus_of(data, Path(folder)))
        _, speeds = rates(parts, args.rounds, time.process_time)
    for name, each in speeds.items():
        print(f"{name:28s} {statistics.median(each):6.0f} images/s   [{min(each):.0f}, {max(each):.0f}]")
    peers = {"bare: Pillow, torch": "decoding and resizing alone, as ours does", "bare: Pillow, Pillow": "Pillow alone"}
    peers["whole: Pillow, Pillow"] = "the same loader with Pillow's resizing"
    label = f"{what} from shards to batches of {BATCH}, the whole path"
    found_rows = [
        rows.compared(label, peer, "images/processor s", speeds[OURS], speeds[name], "1 thread")
        for name, peer in peers.items()
    ]
    rows.write("loader", found_rows, args.results)
    for other in [name for name in speeds if name.startswith("whole") and name != OURS]:
        gains = [a / b for a, b in zip(speeds[OURS], speeds[other], strict=True)]
        print(f"ours / {other}: {statistics.median(gains):.2f} times as many")
    for whole in ("Pillow, torch", "torchvision, torch", "Pillow, Pillow"):
        for bare in dict.fromkeys((whole, "Pillow, Pillow")):
            shares = [a / b for a, b in zip(speeds[f"whole: {whole}"], speeds[f"bare: {bare}"], strict=True)]
            print(f"whole path ({whole}) / bare ({bare}): {100 * statistics.median(shares):.0f} %")


def main() -> None:
    parser = rows.parser(__doc__.splitlines()[0], count=512, quality=95, rounds=9)
    parser.add_argument("--photos", type=Path, help="a parquet file; default: flickr8k.parquet in MDC_DATA if there")
    args = rows.arguments(parser, count=128, rounds=2)
    print(f"{platform.processor() or platform.machine()}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    compare(args)


if __name__ == "__main__":
    main()
