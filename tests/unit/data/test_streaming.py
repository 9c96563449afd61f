"""Sources that stream give what reading the whole file gives, and hold little of it in memory."""

import io
import json
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mdc.data.formats.samples import LeftOut, Skipped, rank_hash, safe_key
from mdc.data.sources.choices.parquet_images import parquet_images
from mdc.data.sources.corpora import parquet as corpus
from mdc.data.sources.source import open_corpus
from mdc.plan.config.kinds.sources import ParquetCorpus, TableCorpus
from mdc.plan.records import UserError


@cache
def image(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (number % 256, number // 256, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def described(path: str, **more: Any) -> dict[str, Any]:
    source = ParquetCorpus.model_validate({"kind": "parquet", "path": path, "split_column": None, **more})
    return source.complete()


@pytest.mark.parametrize("group", [7, 1000])
@pytest.mark.parametrize(
    "columns", [{}, {"key_column": "name"}, {"split_column": "part"}, {"key_column": "name", "split_column": "part"}]
)
@pytest.mark.parametrize("pairs", [None, 1, 120])
def test_a_corpus_that_streams_is_the_one_that_was_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, columns: dict[str, str], pairs: int | None
) -> None:
    """Row groups that are smaller and larger than a batch, and hashes that several keys share."""
    monkeypatch.setattr(corpus, "rank_hash", lambda seed, key: rank_hash(seed, key) >> 59)
    rows = [
        {"image": image(n), "caption": f"c {n}", "name": f"n.{n % 90}", "part": ["train", "val"][n % 5 == 4]}
        for n in range(200)
    ]
    for half in range(2):
        table = pa.Table.from_pylist(rows[100 * half : 100 * (half + 1)])
        pq.write_table(table, tmp_path / f"{half}.parquet", row_group_size=group)
    splits = [row for row in rows if row["part"] == "train"] if "split_column" in columns else rows
    keys = [safe_key(row["name"]) if "key_column" in columns else f"{n:08d}" for n, row in enumerate(splits)]
    chosen = set(sorted(keys, key=lambda key: (rank_hash(0, key) >> 59, key))[:pairs])
    wanted = [(key, row["image"], (row["caption"],)) for key, row in zip(keys, splits, strict=True) if key in chosen]
    source = open_corpus(described(".", pairs=pairs, **columns), tmp_path)
    assert [(one.key, one.image, one.captions) for one in source.samples("train", Skipped())] == wanted


def test_images_by_name_are_those_of_the_file(tmp_path: Path) -> None:
    images = [image(n) for n in range(150)] + [b"none"]
    table = pa.table({"image": images, "name": [f"{n}" for n in range(151)]})
    pq.write_table(table, tmp_path / "i.parquet")
    found = parquet_images(tmp_path / "i.parquet", "image", "name")
    assert [found.read(f"{n}") for n in reversed(range(150))] == [(images[n], "png") for n in reversed(range(150))]
    for name, reason in (("150", "image cannot be decoded"), ("151", "image is missing")):
        with pytest.raises(LeftOut, match=reason):
            found.read(name)


def test_each_image_has_the_captions_of_all_rows(tmp_path: Path) -> None:
    """Rows of one image that follow one another and rows that stand apart."""
    draw = random.Random(0)
    names = [f"{n}.png" for n in range(40)]
    listed = [name for name in names for _ in range(draw.choice([1, 1, 3]))]
    listed = [*listed[:50], *draw.choices(names, k=40), *listed[50:]]
    for n, name in enumerate(names):
        (tmp_path / name).write_bytes(image(n))
    lines = [f"{name}\tcaption {n}\t{'train' if int(name[:-4]) % 3 else 'val'}\n" for n, name in enumerate(listed)]
    lines[20:20] = ["\tno image\ttrain\n", "1.png\tof no split\tother\n", "two\tcells\n"]
    (tmp_path / "t.tsv").write_text("image\tcaption\tsplit\n" + "".join(lines))
    wanted: dict[str, tuple[str, list[str]]] = {}
    for number, line in enumerate(lines):
        cells = line.rstrip("\n").split("\t")
        if len(cells) == 3 and cells[0] and cells[2] != "other":
            wanted.setdefault(cells[0], (f"{number:08d}", []))[1].append(cells[1])
    table = TableCorpus.model_validate({"kind": "caption_table", "path": "t.tsv", "split_column": "split"})
    table.splits["unused"] = "other"
    source = open_corpus(table.complete(), tmp_path)
    for split in ("train", "val"):
        skipped = Skipped()
        assert [(one.key, one.captions) for one in source.samples(split, skipped)] == [
            (key, tuple(captions))
            for name, (key, captions) in wanted.items()
            if (int(name[:-4]) % 3 > 0) == (split == "train")
        ]
        assert sum(skipped.counts.values()) == (2 if split == "train" else 0)
    with (tmp_path / "t.tsv").open("a") as text:
        text.write("9.png\tmoved\ttrain\n")
    first = 2 + next(n for n, line in enumerate(lines) if line.startswith("9.png"))
    with pytest.raises(UserError, match=f"line {len(lines) + 2}: '9.png' is in split train, in line {first} in val"):
        open_corpus(table.complete(), tmp_path)


PEAK = """
import json, sys
from pathlib import Path
from mdc.data.formats.samples import Skipped
from mdc.data.sources.source import open_corpus
from mdc.data.formats.captions import clean_captions
import pyarrow.parquet
clean_captions(["what it imports"])
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
# getrusage's peak begins with that of the process that started this one
open("/proc/self/clear_refs", "w").write("5")
before = peak()
source = open_corpus(json.loads(sys.argv[1]), Path(sys.argv[2]))
count = sum(1 for _ in source.samples("train", Skipped()))
print(count, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of the memory is read from /proc")
def test_memory_does_not_grow_with_a_row_group(tmp_path: Path) -> None:
    """300 MB of images in one row group; a PNG may have anything behind its end."""
    rows = 6000
    padding = b"".join(n.to_bytes(4, "big") for n in range(12_500))
    table = pa.table({"image": [image(n) + padding for n in range(rows)], "caption": ["a dog"] * rows})
    pq.write_table(table, tmp_path / "large.parquet", compression="none", use_dictionary=False, row_group_size=rows)
    command = [sys.executable, "-c", PEAK, json.dumps(described("large.parquet", pairs=1000)), str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(told[0]) == 1000
    assert int(told[1]) < 220_000, f"{told[1]} kB more for {rows * len(padding) // 1000} kB of images"
