"""The probe records that a table's job was handed, with their items and hashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mdc.records import sha256_file
from mdc.report.items import ProbeItems, read_items
from mdc.report.probe_records import read_record


class GivenRecords:
    """``records`` by their files; ``hashes``: job and file name → sha256, as a table's record lists its inputs."""

    def __init__(self, files: Iterable[str | Path]) -> None:
        found: dict[str, dict[str, Any]] = {}
        self.hashes: dict[str, str] = {}
        self._folders: dict[str, Path] = {}
        for path in map(Path, files):
            record = read_record(path)
            id_ = record["encoder"]["id"]
            found[id_], self._folders[id_] = record, path.parent
            self.hashes[f"{record['id']}/{path.name}"] = sha256_file(path)
        self.records = list(found.values())

    def items(self, record: Mapping[str, Any]) -> Mapping[str, ProbeItems]:
        """A record's per-item results, by probe; UserError if they are not those that it names."""
        path = self._folders[record["encoder"]["id"]] / record["items"]["file"]
        return read_items(path, record["items"]["sha256"])
