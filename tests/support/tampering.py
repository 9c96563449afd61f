"""Changes by hand to the files of a small project, open ones and ones whose hashes are hidden."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_project

from mdc.jobs.folder import ScaleFolder
from mdc.records import read_json, sha256_file, write_json
from mdc.report.tidy import csv_text

Change = Callable[[Path], Any]


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    found = read_json(path)
    change(found)
    write_json(path, found)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def flip(path: Path) -> None:
    """Another digit in a text, another bit in the middle of anything else."""
    content = bytearray(path.read_bytes())
    try:
        place = re.search(r"[0-9]", content.decode()).start()  # type: ignore[union-attr]
        content[place : place + 1] = b"7" if content[place : place + 1] != b"7" else b"3"
    except UnicodeDecodeError:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)


def seal(r: Path) -> None:
    """Hide a change: write every hash anew that is written above it, and the copies."""
    plan, folder = small_project.plan((0, 1)), ScaleFolder(r)
    for name, job in plan.jobs.items():  # each after those that it is made from
        path = folder.record(name, job.verb)
        if not path.is_file():
            continue
        record = read_json(path)
        record["outputs"] = {file: sha256_file(path.parent / file) for file in record["outputs"]}
        manifests = {other: folder.manifest(other, plan.jobs[other].verb) for other in job.inputs}
        record["inputs"] = {other: sha256_file(manifests[other]) for other in record["inputs"] if other in manifests}
        write_json(path, record)
    small_project.publish(r)


def hidden(change: Change) -> Change:
    """``change`` with all hashes above it written anew."""

    def both(r: Path) -> None:
        change(r)
        seal(r)

    return both


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def edit_cell(name: str, column: str, row: int = 2, number: str = "99.0000") -> Change:
    """Change a cell of the csv file ``name`` in the scale's folder."""

    def change(r: Path) -> None:
        found = lines(r / name)
        assert found[row][column] != number
        found[row][column] = number
        (r / name).write_text(csv_text(found, list(found[0])))

    return change
