"""Edits of the code that are accepted as changing no result (``mdc accept-edit``), in ``accepted_edits.json`` beside params.yaml.

An edit says that the code with fingerprint ``new`` gives the same results as the code with fingerprint ``old``. From then on the
configuration of a job that runs the new code has the old fingerprint, so existing records stay current and nothing reruns. The
file is under version control, with the reasons.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from mdc.plan.config.problems import checked
from mdc.plan.records import read_json, write_json

FILE = "accepted_edits.json"


class Edit(BaseModel):
    """``verb``: of the jobs that it applies to. ``old``, ``new``: fingerprints."""

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
        by_new, edits = {edit.new: edit for edit in self.edits}, list[Edit]()
        while (edit := by_new.get(fingerprint)) is not None and edit not in edits:
            edits.insert(0, edit)
            fingerprint = edit.old
        return edits

    def oldest(self, fingerprint: str) -> str:
        """The oldest fingerprint that is accepted as equal to this one; ``fingerprint`` itself without an edit."""
        return next((edit.old for edit in self.behind(fingerprint)), fingerprint)

    def newest(self, fingerprint: str) -> str:
        """The newest fingerprint that is accepted as equal to this one; ``fingerprint`` itself without an edit."""
        later = (edit.new for edit in reversed(self.edits) if fingerprint in (e.old for e in self.behind(edit.new)))
        return next(later, fingerprint)


def read_accepted(folder: str | Path = ".") -> Accepted:
    """The accepted edits in ``folder``; none if it has no such file. UserError if the file holds something else."""
    path = Path(folder) / FILE
    if not path.is_file():
        return Accepted()
    content = checked(_File, read_json(path), path, "; allowed: what `mdc accept-edit` writes")
    return Accepted(tuple(content.edits))


def write_accepted(edits: Iterable[Edit], folder: str | Path = ".") -> None:
    """Write all edits atomically."""
    write_json(Path(folder) / FILE, {"edits": [edit.model_dump() for edit in edits]})
