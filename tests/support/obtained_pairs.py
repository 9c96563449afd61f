"""Pairs as they lie after a download, in shards with their accounts."""

import json
import random
import tarfile
from pathlib import Path
from typing import Any

from bad_input import tar_of
from data_samples import encoded

from mdc.plan.records import sha256_file

PER_SHARD, CHOSEN = 10, 34
SOURCE: dict[str, Any] = {
    "kind": "pairs",
    "dataset": "d",
    "path": "d",
    "from": "urls",
    "pairs": None,
    "val_fraction": 0.0,
}


def sample(place: int, /, **changes: Any) -> list[tuple[str, bytes]]:
    """The files of one downloaded pair; every second pair shares its URL with the one before."""
    record = {"place": place, "url": f"http://a.example/{place // 2}", "long": [f"long {place}"], **changes}
    files = {"jpg": encoded(place, kind="JPEG"), "json": json.dumps(record).encode(), "txt": f"thing {place}".encode()}
    return [(f"{place:06d}.{ending}", content) for ending, content in files.items()]


def downloaded(folder: Path, order: int, dead: frozenset[int] = frozenset({3, 20})) -> Path:
    """A data set as it lies after a download in which threads ended in another ``order``."""
    parts = [min(PER_SHARD, CHOSEN - first) for first in range(0, CHOSEN, PER_SHARD)]
    for name in ("plan", "shards", "accounts"):
        (folder / "d" / name).mkdir(parents=True)
    plan = {"chosen": CHOSEN, "asked": {"subset": {"pairs": CHOSEN, "seed": 0}}, "parts": [{"rows": n} for n in parts]}
    (folder / "d/plan/plan.json").write_text(json.dumps(plan))
    for shard, rows in enumerate(parts):
        places = [n for n in range(shard * PER_SHARD, shard * PER_SHARD + rows) if n not in dead]
        random.Random(order).shuffle(places)
        members = [file for place in places for file in sample(place)]
        (folder / f"d/shards/{shard:05d}.tar").write_bytes(tar_of(members, tarfile.PAX_FORMAT))
        take_account(folder, shard)
    return folder


def take_account(folder: Path, shard: int) -> None:
    """As after a download that was checked: what is there now is good."""
    tar = folder / f"d/shards/{shard:05d}.tar"
    status, sha256 = tar.stat(), sha256_file(tar)
    account = {"sha256": sha256, "tar": sha256, "files": {tar.name: [status.st_size, status.st_mtime_ns]}}
    (folder / f"d/accounts/{shard:05d}.json").write_text(json.dumps(account))
