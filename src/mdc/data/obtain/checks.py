"""The registry's checks of a dataset's files."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.plan.progress import progress
from mdc.plan.records import UserError
from mdc.plan.registry.entry import Check, RegistryEntry


@dataclass(frozen=True)
class Finding:
    """A check's result; ``found`` is None where the file could not be read, and ``trouble`` says why."""

    check: Check
    found: int | str | None
    trouble: str = ""

    @property
    def good(self) -> bool:
        if self.found is None:
            return False
        if self.check.at_least:
            return int(self.found) >= int(self.check.expected)
        return self.found == self.check.expected

    @property
    def expected(self) -> str:
        """What is expected, in words."""
        return f"at least {self.check.expected}" if self.check.at_least else str(self.check.expected)

    @property
    def shown(self) -> str:
        """What was found, in words."""
        return self.trouble if self.found is None else str(self.found)


def run_checks(entry: RegistryEntry, folder: Path, way: str, parts: Sequence[str] | None = None) -> list[Finding]:
    """All checks of ``entry`` for data obtained by ``way`` at ``folder``; ``parts``: those requested, None for all."""
    bar = progress(checks_of(entry, way, parts), desc=f"{entry.label}: checks", leave=False)
    return [look(check, folder) for check in bar]


def checks_of(entry: RegistryEntry, way: str, parts: Sequence[str] | None = None) -> list[Check]:
    """The checks that ``run_checks`` runs."""
    wanted = entry.parts if parts is None else parts
    return [check for check in entry.checks if check.of == way and (not check.part or check.part in wanted)]


def look(check: Check, folder: Path) -> Finding:
    """Run one check."""
    try:
        if check.kind in ("files", "folders"):
            is_kind = Path.is_file if check.kind == "files" else Path.is_dir
            return Finding(check, sum(map(is_kind, folder.glob(check.path))))
        path = folder / check.path
        if check.kind in ("sha256", "md5"):
            with path.open("rb") as file:
                return Finding(check, hashlib.file_digest(file, check.kind).hexdigest())
        if check.kind == "lines":
            with path.open("rb") as file:
                return Finding(check, sum(1 for _ in file))
        return _json_items(check, path)
    except FileNotFoundError:
        return Finding(check, None, "missing")
    except OSError as error:
        return Finding(check, None, error.strerror or str(error))


def _json_items(check: Check, path: Path) -> Finding:
    try:
        value: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return Finding(check, None, "not valid JSON")
    if check.key:
        value = value.get(check.key) if isinstance(value, dict) else None
    if not isinstance(value, dict | list):
        return Finding(check, None, f"has no list or object {check.key}".rstrip())
    return Finding(check, len(value))


def require(name: str, folder: Path, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings for a record. UserError that names the first failed one."""
    bad = [finding for finding in findings if not finding.good]
    if bad:
        first = bad[0]
        more = f" ({len(bad) - 1} more fail: mdc data check {name})" if len(bad) > 1 else ""
        raise UserError(
            f"{name}: {first.check.title} in {folder}: found {first.shown}, expected {first.expected}{more}"
        )
    return [{"check": f.check.title, "found": f.found, "expected": f.check.expected} for f in findings]
