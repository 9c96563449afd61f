"""What became of each row of a shard: what img2dataset wrote of it, held against the plan, its stats and the images in the tar.

img2dataset says 0 whatever failed, so only a shard that was checked counts. Its account is ``<folder>/accounts/NNNNN.json``; it
holds as long as the shard's files have the size and time it names, or the tar the hash.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.folders import size_and_time
from mdc.data.formats.parquet_file import read_parquet
from mdc.data.obtain.plan import LISTED_SHA256
from mdc.data.obtain.reasons import OUTCOMES, SILENCE, outcome_of, reason_of
from mdc.plan.records import UserError, read_json, sha256_file, write_json

_ENDINGS = (".tar", ".parquet", "_stats.json")
_FEW, _NEARLY_ALL = 20, 0.9  # rows and share of them from which on silence is told from link rot


class Incomplete(Exception):
    """A shard is not whole; the message says why."""


class NetworkDown(Incomplete):
    """Hardly any row of a shard met a server: more likely this machine's connection than the end of the web."""


def shard_files(folder: Path, shard: int) -> list[Path]:
    return [folder / "shards" / f"{shard:05d}{ending}" for ending in _ENDINGS]


def account_file(folder: Path, shard: int) -> Path:
    return folder / "accounts" / f"{shard:05d}.json"


def read_account(folder: Path, shard: int, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The account of a shard of this plan's ``part``, if it was taken and its files have not changed since."""
    try:
        account, now = read_json(account_file(folder, shard)), _seals(folder, shard)
        if account["part"] != part["sha256"]:
            return None
        if account["files"] != now:  # a copy has other times
            sizes = {name: size for name, (size, _) in account["files"].items()}
            if sizes != {name: size for name, (size, _) in now.items()}:
                return None
            if sha256_file(shard_files(folder, shard)[0]) != account["tar"]:
                return None
            write_json(account_file(folder, shard), account := {**account, "files": now})
    except (UserError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return account


def take_account(
    folder: Path,
    shard: int,
    part: Mapping[str, Any],
    planned: Any,
    images: Mapping[str, str],
    trust_network_errors: bool = False,
) -> dict[str, Any]:
    """Check a shard that was just written, and write its account. Incomplete if it is not whole, or not of this plan.

    ``planned``: the part's rows; ``images``: the sha256 of each image in the tar, by key. NetworkDown if nine rows in ten met no
    server, unless others did just now (``trust_network_errors``).
    """
    columns = planned.column_names
    parquet, stats = shard_files(folder, shard)[1], read_json(shard_files(folder, shard)[2])
    rows = read_parquet(parquet, [*columns, "key", "status", "error_message", "sha256"]).sort_by("place")
    if not rows.select(columns).equals(planned):
        raise Incomplete("its rows are not those of the plan")
    told: Counter[str] = Counter()
    listed = {"compared": 0, "different": 0}
    digest = hashlib.sha256()
    for row in rows.to_pylist():
        good = row["status"] == "success"
        reason = "" if good else reason_of(row["error_message"] or "")
        told[reason] += 1
        if good and row.get(LISTED_SHA256):
            listed["compared"] += 1
            listed["different"] += row[LISTED_SHA256] != row["sha256"]
        line = [*(row[name] for name in columns), row["key"], reason, row["sha256"], images.get(row["key"])]
        digest.update(json.dumps(line).encode() + b"\n")
    if (stats["count"], stats["successes"]) != (rows.num_rows, told[""]) or len(images) != told[""]:
        raise Incomplete("its rows, its stats and its tar tell different numbers")
    silent = sum(count for reason, count in told.items() if reason in SILENCE)
    if not trust_network_errors and part["rows"] >= _FEW and silent > _NEARLY_ALL * part["rows"]:
        raise NetworkDown(f"{silent} of {part['rows']} rows got no response from any host; check your network")
    account = {
        "shard": shard,
        "part": part["sha256"],
        "rows": part["rows"],
        "reasons": {reason: count for reason, count in sorted(told.items()) if count},
        **({"listed_sha256": listed} if LISTED_SHA256 in columns else {}),
        "sha256": digest.hexdigest(),
        "files": _seals(folder, shard),
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
    return [one for one in read_parquet(shard_files(folder, shard)[1], ["sha256"])["sha256"].to_pylist() if one]


def _seals(folder: Path, shard: int) -> dict[str, list[int]]:
    """Size and modification time of a shard's files: what tells that they are the ones that were checked."""
    return {path.name: size_and_time(path)[1:] for path in shard_files(folder, shard)}
