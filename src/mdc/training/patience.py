"""Early stopping: a finetuned run ends when several validations in a row were none the best so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mdc.plan.records import read_json_lines
from mdc.training.state import States


class Patience:
    """``limit`` validations in a row without a smaller loss are one too many; None: there is no limit. ``losses``: of those
    that were, in their order."""

    def __init__(self, limit: int | None, losses: Iterable[float] = ()) -> None:
        self.limit = limit
        self._best, self._waited = float("inf"), 0
        for loss in losses:
            self.add(loss)

    def add(self, loss: float) -> None:
        """Another validation's loss."""
        self._best, self._waited = (loss, 0) if loss < self._best else (self._best, self._waited + 1)

    @property
    def over(self) -> bool:
        """Whether the run is to end."""
        return self.limit is not None and self._waited >= self.limit


def losses_until(states: States, step: int) -> list[float]:
    """The validation losses that the log of a run tells up to ``step``."""
    lines: Iterable[Mapping[str, Any]] = read_json_lines(states.folder / "log.jsonl") if step else ()
    return [line["validation_loss"] for line in lines if "validation_loss" in line and line["step"] <= step]
