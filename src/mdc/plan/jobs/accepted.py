"""Edits of the code that are accepted as changing no result (``mdc accept-edit``), in ``accepted_edits.json`` beside params.yaml.

An edit says that the code with fingerprint ``new`` gives what the code with fingerprint ``old`` gave. From then on a job
that runs the new code is asked for with the old fingerprint: its configuration stays what it was, so nothing reruns, and a
record made before the edit is what is asked for. The file is under version control, with the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mdc.plan.config.problems import checked
from mdc.plan.records import read_json, write_json

FILE = "accepted_edits.json"


class Edit(BaseModel):
    """``verb``: of the jobs it is for. ``old``, ``new``: fingerprints."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    verb: str
    old: str = Field(pattern=r"^[0-9a-f]{64}$")
    new: str = Field(pattern=r"^[0-9a-f]{64}$")
    reason: str = Field(min_length=1)
    date: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    edits: list[Edit]


@dataclass(frozen=True)
class Accepted:
    """All accepted edits, the oldest first."""

    edits: tuple[Edit, ...] = ()

    def behind(self, fingerprint: str) -> list[Edit]:
        """The edits that led to the code with this fingerprint, the oldest first."""
        by_new, found = {edit.new: edit for edit in self.edits}, list[Edit]()
        while (edit := by_new.get(fingerprint)) is not None and edit not in found:
            found.insert(0, edit)
            fingerprint = edit.old
        return found

    def oldest(self, fingerprint: str) -> str:
        """The fingerprint of the first code that gives what this code gives: ``fingerprint`` itself without an edit."""
        return next((edit.old for edit in self.behind(fingerprint)), fingerprint)

    def newest(self, fingerprint: str) -> str:
        """The fingerprint of the last code that gives what this code gives: ``fingerprint`` itself without an edit."""
        later = (edit.new for edit in reversed(self.edits) if fingerprint in (e.old for e in self.behind(edit.new)))
        return next(later, fingerprint)


def read_accepted(folder: str | Path = ".") -> Accepted:
    """The accepted edits in ``folder``; none if it has no such file. UserError if the file holds something else."""
    path = Path(folder) / FILE
    if not path.is_file():
        return Accepted()
    found = checked(_File, read_json(path), path, "; allowed: what `mdc accept-edit` writes")
    return Accepted(tuple(found.edits))


def write_accepted(edits: Iterable[Edit], folder: str | Path = ".") -> None:
    """Write all edits, whole or not at all."""
    found: dict[str, Any] = {"edits": [edit.model_dump() for edit in edits]}
    write_json(Path(folder) / FILE, found)
