"""A call of a verb's ``main`` without the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Call:
    """``inputs``: the manifest of each input job."""

    job: Any
    out: Path
    inputs: dict[str, Path] = field(default_factory=dict)
    runtime: Path | None = None
    state: Path | None = None
    cache: Path | None = None
    wait: bool = False

    def input(self, name: str) -> Path:
        return self.inputs[name]
