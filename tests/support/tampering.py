"""Changes by hand to the files of a small project, open ones and ones whose hashes are hidden."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import small_project
from changed import put as set_value
from shown import read_rows

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import read_json, sha256_file, sha256_json, write_json
from mdc.report.csv_file import csv_text


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    found = read_json(path)
    change(found)
    write_json(path, found)


def put(path: Path, content: bytes | str) -> None:
    """Another file in the place of ``path``: the one that is there may be shared with other tests."""
    path.unlink(missing_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    put(path, text.replace(old, new, 1))


def flip(path: Path) -> None:
    """Another digit in a text, or letter where it has none; another bit in the middle of anything else."""
    content = bytearray(path.read_bytes())
    try:
        text = content.decode()
        place = (re.search(r"[0-9]", text) or re.search(r"[a-z]", text)).start()  # type: ignore[union-attr]
        content[place : place + 1] = b"7" if content[place : place + 1] != b"7" else b"3"
    except UnicodeDecodeError:
        content[len(content) // 2] ^= 1
    put(path, bytes(content))


@cache
def _plan() -> Plan:
    return small_project.plan((0, 1))


def seal(r: Path, changed: Path) -> None:
    """Hide a change of a file: write every hash anew that is written above it, and the copies."""
    plan, folder = _plan(), ScaleFolder(r)
    above: set[str] = set()
    for name, job in plan.jobs.items():  # each after those that it is made from
        path = folder.record(name, job.verb)
        if not path.is_file() or not (above & {*job.inputs} or changed.is_relative_to(folder.job(name))):
            continue
        above.add(name)
        record = read_json(path)
        record["outputs"] = {file: sha256_file(path.parent / file) for file in record["outputs"]}
        manifests = {other: folder.manifest(other, plan.jobs[other].verb) for other in job.inputs}
        record["inputs"] = {other: sha256_file(manifests[other]) for other in record["inputs"] if other in manifests}
        write_json(path, record)
    small_project.publish(r, above)


def cell(path: Path, column: str, row: int = 2, number: str = "99.0000") -> None:
    """Change a cell of a csv file."""
    found = read_rows(path)
    assert found[row][column] != number
    found[row][column] = number
    put(path, csv_text(found, list(found[0])))


def other_configuration(path: Path) -> None:
    """A record whose configuration is another one, its hash with it."""

    def change(record: dict[str, Any]) -> None:
        record["config"]["statistics"]["bootstrap"] = 777
        record["config_sha256"] = sha256_json(record["config"])

    edit(path, change)


def another_runs_record(probe: Path) -> None:
    for file in ("probe.json", "items.parquet"):
        copy(probe.parents[1] / "clip/s0" / file, probe / file)


def index_of_another_source(corpus: Path) -> None:
    """Its shards under their own names; made.json says what it must."""
    edit(corpus / "index.json", lambda index: index["source"].update(seed=77))
    sha256 = sha256_file(corpus / "index.json")
    edit(corpus / "made.json", lambda made: made["outputs"].update({"index.json": sha256}))


def copy(source: Path, to: Path) -> None:
    put(to, source.read_bytes())


def plant(r: Path, change: dict[str, Any]) -> None:
    """Make a change of plants.yaml."""
    (kind,) = change.keys() - {"said", "hidden", "only"}
    words = change[kind] if isinstance(change[kind], list) else [change[kind]]
    first, *rest = words
    if kind == "copy":
        rest = [r / rest[0]]
    kinds: dict[str, Callable[..., Any]] = {
        **{"set": lambda path, key, to: edit(path, lambda found: set_value(found, key, to)), "write": put},
        **{"cut": lambda path: put(path, path.read_bytes()[:512]), "remove": Path.unlink},
    }
    (kinds.get(kind) or globals()[kind])(r / first, *rest)
    if change.get("hidden"):
        seal(r, rest[0] if kind == "copy" else r / first)
