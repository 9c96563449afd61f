"""The progress of a long job: a bar on a terminal; in a file, such as a job's log, one line per minute."""

import sys
from typing import Any

from tqdm import tqdm

EVERY = 60.0  # seconds between two lines, and before the first


def progress(*args: Any, **options: Any) -> "tqdm[Any]":
    """tqdm's bar with tqdm's arguments; if stderr is a file, whole lines."""
    return tqdm(*args, **options) if sys.stderr.isatty() else _Lines(*args, **options)


class _Lines(tqdm):
    """Whole lines instead of a bar that is redrawn."""

    monitor_interval = 0  # no monitor thread, which is unsafe under fork

    def __init__(self, *args: Any, **options: Any) -> None:
        line = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        lines = {"mininterval": EVERY, "delay": EVERY, "miniters": 1, "bar_format": line}
        super().__init__(*args, **{**options, **lines})

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Print one line."""
        print(msg or str(self), file=self.fp, flush=True)

    def close(self) -> None:
        """Print a last line if there were earlier ones."""
        if not self.disable:
            self.disable = True
            type(self)._decr_instances(self)  # type: ignore[attr-defined]
            if self.last_print_t >= self.start_t + EVERY:
                self.display()
