"""What all typed jobs have in common.

Everything that decides a job's result stands in its values, and nothing else does: what only says how fast a job goes is
no part of it. No fingerprint covers this package, because values are compared as values; so nothing here may compute a
result.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from mdc.plan.config.types import Name, Strict
from mdc.plan.records import sha256_json

#: a job's name is a path below the scale's folder
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*$")]


class Job(Strict):
    """What all jobs have. ``inputs``: the jobs whose manifests it reads. ``fingerprint``: of the code that it runs."""

    job: JobName
    verb: str
    scale: Name
    fingerprint: str
    inputs: list[JobName]

    def config(self) -> dict[str, Any]:
        """As JSON has it: what records hold and hashes are taken of."""
        return self.model_dump(mode="json", by_alias=True)

    @cached_property
    def sha256(self) -> str:
        """Of the whole configuration."""
        return sha256_json(self.config())
