"""The outcome of each row of a shard: img2dataset's rows checked against the plan, the stats and the images that were written.

img2dataset exits with 0 whatever failed, so only a checked shard counts. Its account is ``<folder>/accounts/NNNNN.json``. It is
valid while the shard's files keep the recorded size and time, or the tar its hash.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.folders import size_and_time
from mdc.data.formats.parquet_file import read_parquet
from mdc.data.obtain.plan import LISTED_SHA256
from mdc.data.obtain.reasons import OUTCOMES, SILENCE, outcome_of, reason_of
from mdc.plan.records import UserError, read_json, sha256_file, write_json

_ENDINGS = (".tar", ".parquet", "_stats.json")
_FEW, _NEARLY_ALL = 20, 0.9  # so many rows, and this share of them without a response: no link rot


class Incomplete(Exception):
    """A shard is incomplete; the message says why."""


class NetworkDown(Incomplete):
    """Hardly any row of a shard reached a server: probably this machine's connection."""


def shard_files(folder: Path, shard: int) -> list[Path]:
    return [folder / "shards" / f"{shard:05d}{ending}" for ending in _ENDINGS]


def account_file(folder: Path, shard: int) -> Path:
    return folder / "accounts" / f"{shard:05d}.json"


def read_account(folder: Path, shard: int, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The account of a shard of this plan's ``part``; None if there is none, or if the files have changed since. UserError if a
    file cannot be read: its shard may be good."""
    path = account_file(folder, shard)
    try:
        account, now = json.loads(path.read_bytes()), _seals(folder, shard)
        if account["part"] != part["sha256"]:
            return None
        if account["files"] != now:  # a copied folder has new times
            sizes = {name: size for name, (size, _) in account["files"].items()}
            if sizes != {name: size for name, (size, _) in now.items()}:
                return None
            if sha256_file(shard_files(folder, shard)[0]) != account["tar"]:
                return None
            account = {**account, "files": now}
            with suppress(OSError):  # a full disk makes no shard worse; the next run hashes it again
                write_json(path, account)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be read ({error.strerror}); nothing was removed") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    return dict(account)


def take_account(
    folder: Path,
    shard: int,
    part: Mapping[str, Any],
    planned: Any,
    images: Mapping[str, str],
    trust_network_errors: bool = False,
) -> dict[str, Any]:
    """Check a shard that was just written, and write its account. Incomplete if rows are missing or not those of the plan.

    ``planned``: the part's rows; ``images``: the sha256 of each image that was written to the tar, by key. NetworkDown if over
    nine rows in ten reached no server, unless other shards did just now (``trust_network_errors``).
    """
    columns = planned.column_names
    parquet, stats = shard_files(folder, shard)[1], read_json(shard_files(folder, shard)[2])
    rows = read_parquet(parquet, [*columns, "key", "status", "error_message", "sha256"]).sort_by("place")
    if not rows.select(columns).equals(planned):
        raise Incomplete("its rows are not those of the plan")
    counts: Counter[str] = Counter()
    listed = {"compared": 0, "different": 0}
    digest = hashlib.sha256()
    for row in rows.to_pylist():
        good = row["status"] == "success"
        reason = "" if good else reason_of(row["error_message"] or "")
        counts[reason] += 1
        if good and row.get(LISTED_SHA256):
            listed["compared"] += 1
            listed["different"] += row[LISTED_SHA256] != row["sha256"]
        line = [*(row[name] for name in columns), row["key"], reason, row["sha256"], images.get(row["key"])]
        digest.update(json.dumps(line).encode() + b"\n")
    if (stats["count"], stats["successes"]) != (rows.num_rows, counts[""]) or len(images) != counts[""]:
        raise Incomplete("its rows, its stats and its images disagree on the number of pairs")
    silent = sum(count for reason, count in counts.items() if reason in SILENCE)
    if not trust_network_errors and part["rows"] >= _FEW and silent > _NEARLY_ALL * part["rows"]:
        raise NetworkDown(f"{silent} of {part['rows']} rows got no response from any host; check your network")
    account = {
        "shard": shard,
        "part": part["sha256"],
        "rows": part["rows"],
        "reasons": {reason: count for reason, count in sorted(counts.items()) if count},
        **({"listed_sha256": listed} if LISTED_SHA256 in columns else {}),
        "sha256": digest.hexdigest(),
        "files": _seals(folder, shard),
        "tar": sha256_file(shard_files(folder, shard)[0]),  # identifies a copied download
    }
    write_json(account_file(folder, shard), account)
    return account


def remove_shard(folder: Path, shard: int) -> None:
    """Remove all files of a shard."""
    for path in [account_file(folder, shard), *shard_files(folder, shard)]:
        path.unlink(missing_ok=True)


def summary(accounts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Outcomes and reasons of all shards, and a line for each. The counts add up to the rows of the plan.

    ``listed_sha256``, if the list has hashes: how many pairs were compared with theirs, and how many images differ.
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
    """Pairs whose image is an exact copy of an earlier one, by sha256 of the download: most often a host's error image.

    ``pairs``: without the first of each image; ``images``: how many occur several times; of the most frequent its ``sha256``
    and its count (``most``). Memory: 24 bytes for each pair of the download.
    """
    prefixes = [np.empty(0, dtype=np.uint64)]
    for shard in range(shards):
        prefixes.append(np.array([int(sha256[:16], 16) for sha256 in _hashes(folder, shard)], dtype=np.uint64))
    unique, counts = np.unique(np.concatenate(prefixes), return_counts=True)
    if not (counts > 1).any():
        return {"pairs": 0, "images": 0}
    most = int(counts.argmax())
    start = f"{int(unique[most]):016x}"
    sha256 = next(full for shard in range(shards) for full in _hashes(folder, shard) if full.startswith(start))
    return {
        "pairs": int((counts - 1).sum()),
        "images": int((counts > 1).sum()),
        "most": int(counts[most]),
        "sha256": sha256,
    }


def _hashes(folder: Path, shard: int) -> list[str]:
    """The sha256 of each downloaded image of a shard, before resizing."""
    return [
        sha256 for sha256 in read_parquet(shard_files(folder, shard)[1], ["sha256"])["sha256"].to_pylist() if sha256
    ]


def _seals(folder: Path, shard: int) -> dict[str, list[int]]:
    """Size and modification time of a shard's files, which identify the checked ones."""
    return {path.name: size_and_time(path)[1:] for path in shard_files(folder, shard)}
