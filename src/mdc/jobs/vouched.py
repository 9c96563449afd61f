"""Edits of which somebody said that they change no result (``mdc vouch``), in ``vouched.json`` beside params.yaml.

A link says that the code with fingerprint ``new`` gives what the code with fingerprint ``old`` gave. From then on a job
that runs the new code is asked for with the old fingerprint: its configuration stays what it was, so nothing reruns, and a
record made before the edit is what is asked for. The file is under version control, with the reason and the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mdc.config import first_problem
from mdc.records import UserError, read_json, write_json

FILE = "vouched.json"


class Link(BaseModel):
    """``verb``: of the jobs it is for. ``evidence``: what the golden case of the verb showed, or that there is none."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    verb: str
    old: str = Field(pattern=r"^[0-9a-f]{64}$")
    new: str = Field(pattern=r"^[0-9a-f]{64}$")
    reason: str = Field(min_length=1)
    date: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    evidence: str


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    links: list[Link]


@dataclass(frozen=True)
class Vouched:
    """The links, the oldest first."""

    links: tuple[Link, ...] = ()

    def oldest(self, fingerprint: str) -> str:
        """The first code that is said to give what this code gives; the fingerprint itself if nobody said anything."""
        return self.chain(fingerprint)[0]

    def chain(self, fingerprint: str) -> list[str]:
        """All of them, the oldest first and ``fingerprint`` last."""
        before: Mapping[str, str] = {link.new: link.old for link in self.links}
        found = [fingerprint]
        while found[0] in before and before[found[0]] not in found:
            found.insert(0, before[found[0]])
        return found

    def newest(self, fingerprint: str) -> str:
        """The last code that is said, directly or not, to give what this code gives; itself if nobody said anything."""
        return next((link.new for link in reversed(self.links) if fingerprint in self.chain(link.new)), fingerprint)

    def behind(self, fingerprint: str) -> list[Link]:
        """The links of a fingerprint's chain, the oldest first."""
        chain = self.chain(fingerprint)
        by_new = {link.new: link for link in self.links}
        return [by_new[one] for one in chain[1:]]


def read_vouched(folder: str | Path = ".") -> Vouched:
    """The links in ``folder``; none if it has no such file. UserError if the file holds something else."""
    path = Path(folder) / FILE
    if not path.is_file():
        return Vouched()
    values = read_json(path)
    try:
        return Vouched(tuple(_File.model_validate(values).links))
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error, values)}; allowed: what `mdc vouch` writes") from None


def write_vouched(links: Iterable[Link], folder: str | Path = ".") -> None:
    """Write all links, whole or not at all."""
    found: dict[str, Any] = {"links": [link.model_dump() for link in links]}
    write_json(Path(folder) / FILE, found)
