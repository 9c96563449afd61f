"""The time a run takes over all of its processes, the killed ones included."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from mdc.plan.records import UserError, read_json, write_json

T = TypeVar("T")
_EVERY = 10.0  # seconds between notes: what a kill may lose


class RunClock:
    """Counts seconds and notes them in the run's state, from which the next process of the same run counts on."""

    def __init__(self, state: Path, owner_sha256: str) -> None:
        self._path, self._owner_sha256 = state / "clock.json", owner_sha256
        self._began = self._noted = time.perf_counter()
        self.before = self._earlier()

    def _earlier(self) -> float:
        try:
            note = read_json(self._path)
        except UserError:
            return 0.0
        return float(note["seconds"]) if note.get("owner_sha256") == self._owner_sha256 else 0.0

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """``items``, with a note of the time now and then."""
        for item in items:
            if time.perf_counter() - self._noted >= _EVERY:
                self._noted = time.perf_counter()
                seconds = self.before + self._noted - self._began
                write_json(self._path, {"owner_sha256": self._owner_sha256, "seconds": round(seconds, 3)})
            yield item

    def finish(self) -> None:
        """Forget the notes: the run is done."""
        self._path.unlink(missing_ok=True)
