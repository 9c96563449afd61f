"""Images a second from shards to batches: our loader against webdataset's, on the same shards, with the same crops and workers.

webdataset reads in three ways: as open_clip trains with it (Pillow, torchvision's RandomResizedCrop, ToTensor, Normalize,
open_clip's tokenizer), the same with tensors of uint8 as ours yields them, and with our own decoder and crop in the place of
torchvision's, so that reading, shuffling and batching alone are left to differ. All shuffle: ours the whole split, webdataset a
buffer of as many samples as open_clip keeps. Without workers, seconds are of processor time. With workers, an epoch is timed
by the clock, starting the workers included; of ours and of webdataset's the same torch DataLoader starts them.

    python bench/reading.py --photos data/flickr8k.parquet
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import loader
import numpy as np
import rows
import torch
import torchvision.transforms.v2 as transforms
import webdataset
from PIL import Image
from turns import rates

from mdc.data.formats import pixels
from mdc.data.loader.batches import CaptionBatches
from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD
from mdc.models.text import Vocabulary
from mdc.plan.data_folder import data_folder

SCALE, RATIO = (0.9, 1.0), (3 / 4, 4 / 3)
BUFFER = 5000  # open_clip's _SAMPLE_SHUFFLE_SIZE


def ours(corpus: Path, workers: int) -> Callable[[], int]:
    """An epoch of our batches, each time a new one."""

    def batches(first: int, steps: int) -> CaptionBatches:
        return CaptionBatches(
            corpus,
            "train",
            Vocabulary.full(),
            image_size=loader.SIZE,
            batch_size=loader.BATCH,
            seed=0,
            start_step=first,
            steps=steps,
            crop_scale=SCALE,
            crop_ratio=RATIO,
            context_length=77,
            workers=workers,
        )

    each, epoch = batches(0, 1).steps_per_epoch, iter(range(1 << 20))

    def run() -> int:
        # one pass alone, as webdataset's: pixels that our loader would keep for the next epoch are not kept
        first = next(epoch) * each
        return sum(len(batch) for batch in batches(first, first + each))

    return run


def theirs(corpus: Path, workers: int, image: Callable[[bytes], Any]) -> Callable[[], int]:
    """An epoch through webdataset; ``image``: from a file's bytes to a tensor."""
    import open_clip

    tokenize = open_clip.get_tokenizer("ViT-B-32")
    shards = [str(path) for path in sorted(corpus.glob("train-*.tar"))]
    names = webdataset.WebDataset(shards, shardshuffle=False).__iter__()
    extension = next(key for key in next(iter(names)) if key in ("jpg", "jpeg", "png", "webp"))

    def captions(data: bytes) -> torch.Tensor:
        return tokenize([data.decode()])[0]

    def run() -> int:
        data = (
            webdataset.WebDataset(shards, shardshuffle=100, workersplitter=webdataset.split_by_worker, seed=0)
            .shuffle(BUFFER, initial=BUFFER)
            .to_tuple(extension, "txt")
            .map_tuple(image, captions)
        )
        # as open_clip: workers batch, the loader hands on
        data = data.batched(loader.BATCH, partial=False)
        loader_of_data = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
        return sum(len(batch[0]) for batch in loader_of_data)

    return run


def as_open_clip(normalised: bool) -> Callable[[bytes], torch.Tensor]:
    """open_clip's transform for training; without ``normalised``, up to tensors of uint8."""
    crop = transforms.RandomResizedCrop(loader.SIZE, SCALE, RATIO, transforms.InterpolationMode.BICUBIC)
    last: list[Any] = [transforms.PILToTensor()]
    if normalised:
        last += [transforms.ToDtype(torch.float32, scale=True), transforms.Normalize(OPENAI_MEAN, OPENAI_STD)]
    transform = transforms.Compose([crop, *last])

    def image(data: bytes) -> torch.Tensor:
        import io

        with Image.open(io.BytesIO(data)) as opened:
            return transform(opened.convert("RGB"))

    return image


def as_ours() -> Callable[[bytes], torch.Tensor]:
    """Our own decoder and crop."""
    rng = np.random.default_rng(0)

    def image(data: bytes) -> torch.Tensor:
        draws = rng.random(pixels.CROP_DRAWS).tolist()
        return pixels.random_resized_crop(pixels.decode_pixels(data), loader.SIZE, draws, SCALE, RATIO)

    return image


PEERS: dict[str, Callable[[], Callable[[bytes], torch.Tensor]]] = {
    "webdataset as open_clip reads": lambda: as_open_clip(normalised=True),
    "webdataset, torchvision's crop in uint8": lambda: as_open_clip(normalised=False),
    "webdataset, our decoder and crop": as_ours,
}


def compare(corpus: Path, args: argparse.Namespace, workers: int, what: str) -> Iterator[rows.Row]:
    """A row for each way in which webdataset reads."""
    sides = {"ours": ours(corpus, workers)} | {
        n: theirs(corpus, workers, transform()) for n, transform in PEERS.items()
    }
    counts, speeds = rates(sides, args.rounds, time.perf_counter if workers else time.process_time)
    # a worker that has less than a batch left drops it
    if min(counts.values()) < max(counts.values()) - (workers + 1) * loader.BATCH:
        raise SystemExit(f"the loaders do not yield as many images: {counts}")
    setting = f"{workers} workers, one thread each" if workers else "in the training process"
    unit = "images/s" if workers else "images/processor s"
    label = (
        f"{what} to batches of {loader.BATCH} at {loader.SIZE} px, {f'{workers} workers' if workers else 'no workers'}"
    )
    for name in PEERS:
        yield rows.compared(label, name, unit, speeds["ours"], speeds[name], setting)


def main() -> None:
    parser = rows.parser(__doc__.splitlines()[0], count=1024, quality=95, rounds=7)
    parser.add_argument("--photos", type=Path, help="a parquet file; default: flickr8k.parquet in MDC_DATA if there")
    parser.add_argument("--workers", type=int, default=2, help="of the second comparison; 0 leaves it out")
    args = rows.arguments(parser, count=256, rounds=2)
    torch.set_num_threads(1)
    path = args.photos or data_folder() / "flickr8k.parquet"
    photos = path if path.is_file() else None
    data = list(loader.jpegs(photos, args.count, args.quality))
    what = f"{'Flickr8k' if args.photos is None and photos else 'photos' if photos else 'drawn photos'} from shards"
    with tempfile.TemporaryDirectory() as folder:
        corpus = loader.corpus_of(data, Path(folder), per_shard=max(args.count // 8, 1))
        for workers in dict.fromkeys((0, args.workers)):
            rows.write("reading", list(compare(corpus, args, workers, what)), args.results)


if __name__ == "__main__":
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    main()
