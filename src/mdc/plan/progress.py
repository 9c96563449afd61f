"""How far a long job is: a bar on a screen; in a file, as a job's log, a line a minute: what is done, how fast, the time left."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

EVERY = 60.0  # seconds between two lines, and before the first: what is done sooner needs none


def progress(*args: Any, **options: Any) -> tqdm[Any]:
    """tqdm's bar with tqdm's arguments, or what stands for it in a file."""
    return tqdm(*args, **options) if sys.stderr.isatty() else _Lines(*args, **options)


class _Lines(tqdm):
    """Whole lines in the place of a bar that is drawn over itself."""

    monitor_interval = 0  # no thread beside, which a fork would have to fear

    def __init__(self, *args: Any, **options: Any) -> None:
        told = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        lines = {"mininterval": EVERY, "delay": EVERY, "miniters": 1, "bar_format": told}
        super().__init__(*args, **{**options, **lines})

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Say where things stand."""
        print(msg or str(self), file=self.fp, flush=True)

    def close(self) -> None:
        """Say how it ended, if anything was said before."""
        if not self.disable:
            self.disable = True
            type(self)._decr_instances(self)  # type: ignore[attr-defined]
            if self.last_print_t >= self.start_t + EVERY:
                self.display()
