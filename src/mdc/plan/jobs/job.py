"""The base class of typed jobs.

A job's values are exactly what decides its result; runtime settings are not part of it. No fingerprint covers this package,
because configurations are compared by value, so nothing here may compute a result.
"""

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from mdc.plan.config.types import Name, Strict
from mdc.plan.records import sha256_json

#: a job's name is a path below the scale's folder
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*$")]


class Job(Strict):
    """The keys of all jobs. ``inputs``: the jobs whose manifests it reads. ``fingerprint``: of the code that it runs."""

    job: JobName
    verb: str
    scale: Name
    fingerprint: str
    inputs: list[JobName]

    def config(self) -> dict[str, Any]:
        """The configuration as JSON values, which records hold and hashes cover."""
        return self.model_dump(mode="json", by_alias=True)

    @cached_property
    def sha256(self) -> str:
        """The hash of the whole configuration."""
        return sha256_json(self.config())
