"""Somebody's own files, as `mdc init` is pointed at them: small photos, a table of captions, folders of classes."""

import gzip
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from scale_files import ROOT

#: class → the colour that its images have most of
CLASSES = {"red bird": (200, 40, 40), "blue bird": (40, 40, 200)}


def photo(path: Path, colour: tuple[int, int, int], seed: int) -> None:
    """A JPEG of 32 × 40 pixels."""
    noise = np.random.default_rng(seed).integers(-40, 40, (40, 32, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path, quality=90)


def photos(folder: Path, count: int) -> list[tuple[str, str]]:
    """``count`` images in ``folder``, and (name, caption) of each."""
    rows = []
    for number in range(count):
        name, colour = list(CLASSES.items())[number % 2]
        photo(folder / f"p{number:03d}.jpg", colour, number)
        rows.append((f"p{number:03d}.jpg", f"a {name}, number {number % 5} of the day"))
    return rows


def table(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] | None = ("image", "caption")) -> None:
    """A CSV, or a TSV by the name's end, gzipped by it or not; a cell alone in its row stands as it is."""
    tab = path.suffix == ".tsv"
    lines = [*([header] if header else []), *rows]
    quoted = "{}" if tab or len(lines[0]) == 1 else '"{}"'
    text = "".join(("\t" if tab else ",").join(map(quoted.format, row)) + "\n" for row in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def classes(folder: Path, train: int = 12, test: int = 8) -> None:
    """``train`` and ``test`` images of each class."""
    for number, (name, colour) in enumerate(CLASSES.items()):
        for split, count in (("train", train), ("test", test)):
            for image in range(count):
                photo(folder / split / name / f"{image:03d}.jpg", colour, 1000 * number + image + len(split))


def everything(data: Path, count: int = 40) -> None:
    """``data``/photos with its table inside, and ``data``/birds with two classes."""
    table(data / "photos/captions.csv", photos(data / "photos", count))
    classes(data / "birds")


def parameters(folder: Path) -> None:
    """params.yaml as it is, and a scale of almost nothing: every call reads both."""
    shutil.copy(ROOT / "params.yaml", folder)
    (folder / "scales").mkdir()
    (folder / "scales/mini.yaml").write_text("label: Small\ndata: {samples_per_shard: 4000}\n", encoding="utf-8")
