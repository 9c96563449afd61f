"""A call of a verb's ``main`` without the command line."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mdc.plan.records import sha256_file


@dataclass
class Call:
    """``manifests``: of each input job."""

    job: Any
    out: Path
    manifests: dict[str, Path] = field(default_factory=dict)
    runtime: Path | None = None
    state: Path | None = None
    cache: Path | None = None
    wait: bool = False
    profile: int | None = None

    def input(self, name: str) -> Path:
        return self.manifests[name]

    def inputs(self) -> dict[str, str]:
        return {name: sha256_file(path) for name, path in self.manifests.items()}
