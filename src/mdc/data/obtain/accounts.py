"""What became of each shard: its tar, parquet and stats held against each other and against the plan.

img2dataset says 0 whatever failed, and goes on after a write that failed, so only a shard that was checked counts. Its
account is ``<folder>/accounts/NNNNN.json``; it holds as long as the shard's files have the size and time it names.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.foreign_tar import tar_samples
from mdc.data.formats.parquet_file import open_parquet, readable
from mdc.data.obtain.plan import LISTED_SHA256, part_file, read_part, rows_digest
from mdc.data.obtain.reasons import OUTCOMES, SILENCE, outcome_of, reason_of
from mdc.plan.records import UserError, read_json, sha256_file, write_json

_ENDINGS = (".tar", ".parquet", "_stats.json")


_FEW, _NEARLY_ALL = 20, 0.9  # rows and share of them from which on silence is told from link rot


class Incomplete(Exception):
    """A shard is not whole; the message says why."""


class Silence(Incomplete):
    """Hardly any row of a shard met a server: more likely this machine's connection than the end of the web."""


def shard_files(folder: Path, shard: int) -> list[Path]:
    return [folder / "shards" / f"{shard:05d}{ending}" for ending in _ENDINGS]


def account_file(folder: Path, shard: int) -> Path:
    return folder / "accounts" / f"{shard:05d}.json"


def read_account(folder: Path, shard: int, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The account of a shard of this plan's ``part``, if it was taken and its files have not changed since."""
    account = _taken(folder, shard, part)
    try:
        return account if account is not None and account["files"] == _seals(folder, shard) else None
    except (KeyError, OSError):
        return None


def take_account_again(folder: Path, shard: int, part: Mapping[str, Any]) -> dict[str, Any]:
    """As ``take_account``, of files that were there before. Incomplete too if an earlier account tells other contents.

    A bit that turned in an image is seen by nothing else: what a shard's rows tell is what was downloaded.
    """
    before = _taken(folder, shard, part)
    account = take_account(folder, shard, part)
    if before is not None and before.get("sha256") != account["sha256"]:
        raise Incomplete("its files changed after they were checked")
    return account


def _taken(folder: Path, shard: int, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The account of a shard of this plan's ``part``, whatever became of its files since."""
    try:
        account = read_json(account_file(folder, shard))
    except UserError:
        return None
    return account if account.get("part") == part["sha256"] else None


def take_account(folder: Path, shard: int, part: Mapping[str, Any], believe: bool = False) -> dict[str, Any]:
    """Check a shard file by file and write its account. Incomplete if it is not whole, or not of this plan.

    Silence if nine rows in ten met no server, unless others did just now (``believe``).
    """
    seals = _seals(folder, shard) if all(path.is_file() for path in shard_files(folder, shard)) else None
    if seals is None:
        raise Incomplete("a file is missing")
    planned = _planned(folder, shard, part)
    try:
        told, listed, lines = _checked(folder, shard, planned)
    except (UserError, ValueError, TypeError, AttributeError, RecursionError) as error:  # a damaged tar, parquet, JSON
        raise Incomplete(str(error)) from None
    silent = sum(count for reason, count in told.items() if reason in SILENCE)
    if not believe and part["rows"] >= _FEW and silent > _NEARLY_ALL * part["rows"]:
        raise Silence(f"{silent} of {part['rows']} rows got no response from any host; check your network")
    account = {
        "shard": shard,
        "part": part["sha256"],
        "rows": part["rows"],
        "reasons": dict(sorted(told.items())),
        **({"listed_sha256": listed} if listed else {}),
        "sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "files": seals,
        "tar": sha256_file(shard_files(folder, shard)[0]),  # tells a copy of the download by its bytes
    }
    write_json(account_file(folder, shard), account)
    return account


def remove_shard(folder: Path, shard: int) -> None:
    """Remove what there is of a shard."""
    for path in [account_file(folder, shard), *shard_files(folder, shard)]:
        path.unlink(missing_ok=True)


def summary(accounts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Outcomes and reasons of all shards, and a line for each. The counts add up to the rows of the plan.

    ``listed_sha256``, of a list with hashes: how many pairs were compared with theirs, and how many images are others.
    """
    reasons: Counter[str] = Counter()
    listed: Counter[str] = Counter()
    shards = []
    for account in accounts:
        reasons.update(account["reasons"])
        listed.update(account.get("listed_sha256", {}))
        shards.append(
            {
                "shard": f"{account['shard']:05d}",
                "rows": account["rows"],
                "obtained": account["reasons"].get("", 0),
                "sha256": account["sha256"],
            }
        )
    outcomes = dict.fromkeys(OUTCOMES, 0)
    for reason, count in reasons.items():
        outcomes[outcome_of(reason)] += count
    return {
        "outcomes": outcomes,
        "reasons": {reason: count for reason, count in sorted(reasons.items()) if reason},
        **({"listed_sha256": dict(listed)} if listed else {}),
        "shards": shards,
    }


def repeated_images(folder: Path, shards: int) -> dict[str, Any]:
    """Which pairs have an image that an earlier one has, by sha256 of what was downloaded: a host's error image, most often.

    ``pairs``: without the first of each image; ``images``: how many occur several times; of the most frequent its ``sha256``
    and how often it occurs (``most``). Memory: 8 bytes for each pair of the download, three times.
    """
    halves = [np.empty(0, dtype=np.uint64)]
    for shard in range(shards):
        halves.append(np.array([int(one[:16], 16) for one in _hashes(folder, shard)], dtype=np.uint64))
    found, counts = np.unique(np.concatenate(halves), return_counts=True)
    if not (counts > 1).any():
        return {"pairs": 0, "images": 0}
    most = int(counts.argmax())
    start = f"{int(found[most]):016x}"
    sha256 = next(one for shard in range(shards) for one in _hashes(folder, shard) if one.startswith(start))
    return {
        "pairs": int((counts - 1).sum()),
        "images": int((counts > 1).sum()),
        "most": int(counts[most]),
        "sha256": sha256,
    }


def _hashes(folder: Path, shard: int) -> list[str]:
    """Of a shard's pairs, the sha256 of each image as it came."""
    parquet = shard_files(folder, shard)[1]
    with open_parquet(parquet) as file, readable(parquet, "its rows cannot be read"):
        return [one for one in file.read(columns=["sha256"])["sha256"].to_pylist() if one]


def _seals(folder: Path, shard: int) -> dict[str, list[int]]:
    """Size and modification time of a shard's files: what tells that they are the ones that were checked."""
    return {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in shard_files(folder, shard)}


def _planned(folder: Path, shard: int, part: Mapping[str, Any]) -> Any:
    """The shard's rows as planned, a table. UserError if they are damaged: then nothing can be said of the shard."""
    table = read_part(folder, shard)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if rows_digest(rows) != part["sha256"]:
        raise UserError(f"{part_file(folder, shard)}: corrupt; delete {folder / 'plan'} and rerun")
    return table


def _checked(folder: Path, shard: int, planned: Any) -> tuple[Counter[str], dict[str, int], list[str]]:
    """Reasons counted ("" is a pair); how many images the list has a hash of, and how many differ; and for each row in order a
    line with all that the shard says of it."""
    tar, parquet, stats_file = shard_files(folder, shard)
    columns = planned.column_names
    found = _outcomes(parquet, [*columns, "key", "status", "error_message", "sha256"])
    if [{name: row[name] for name in columns} for row in found] != planned.to_pylist():
        raise Incomplete("its rows are not those of the plan")
    pairs = {row["key"]: row for row in found if row["status"] == "success"}
    stats = read_json(stats_file)
    if (stats.get("count"), stats.get("successes")) != (len(found), len(pairs)):
        raise Incomplete("its stats tell other numbers than its rows")
    images: dict[str, str] = {}
    for sample in tar_samples(tar):
        row = pairs.get(sample.key)
        image, text, record = (sample.files.get(ending) for ending in ("jpg", "txt", "json"))
        if row is None or sample.key in images or not image or text is None or record is None:
            raise Incomplete(f"sample {sample.key} of its tar is not as its rows tell")
        if text.decode("utf-8", "replace") != row["caption"] or json.loads(record).get("url") != row["url"]:
            raise Incomplete(f"sample {sample.key} of its tar has another caption or url")
        images[sample.key] = hashlib.sha256(image).hexdigest()
    if len(images) != len(pairs):
        raise Incomplete("its tar lacks pairs that its rows tell of")
    told: Counter[str] = Counter()
    hashes = [(row[LISTED_SHA256], row["sha256"]) for row in pairs.values() if row.get(LISTED_SHA256)]
    listed = {"compared": len(hashes), "different": sum(listed != came for listed, came in hashes)}
    lines = []
    for row in found:
        reason = "" if row["status"] == "success" else reason_of(row["error_message"] or "no word")
        told[reason] += 1
        line = [*(row[name] for name in columns), row["key"], reason, row["sha256"], images.get(row["key"])]
        lines.append(json.dumps(line) + "\n")
    return told, listed if LISTED_SHA256 in columns else {}, lines


def _outcomes(parquet: Path, columns: list[str]) -> list[dict[str, Any]]:
    """What img2dataset wrote of each row, in the plan's order whatever thread ended first."""
    with open_parquet(parquet) as file, readable(parquet, "its rows cannot be read"):
        missing = set(columns) - set(file.schema_arrow.names)
        if missing:
            raise Incomplete(f"its rows lack {', '.join(sorted(missing))}")
        rows: list[dict[str, Any]] = file.read(columns=columns).to_pylist()
    return sorted(rows, key=lambda row: row["place"])
