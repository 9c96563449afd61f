"""A run's log: one JSON object a line, TensorBoard beside it, and the progress for the person who waits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from mdc.plan.records import read_json_lines, write_text


class NoLog:
    """In the place of a log, on all processes of a run but the first."""

    def write(self, step: int, values: dict[str, Any]) -> None:
        pass

    def advance(self, loss: float, images_per_second: float, mfu: float | None = None) -> None:
        pass

    def close(self) -> None:
        pass


class RunLog:
    """Appends to ``log.jsonl``; after a resume it first drops what lies beyond the position resumed from."""

    def __init__(self, folder: Path, start_step: int, steps: int, title: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        from mdc.plan.progress import progress

        folder.mkdir(parents=True, exist_ok=True)
        if not start_step:  # an earlier configuration's curves are not this run's
            shutil.rmtree(folder / "tensorboard", ignore_errors=True)
        self.path = folder / "log.jsonl"
        kept = [line for line in read_json_lines(self.path) if line["step"] <= start_step] if start_step else []
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self.path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=start_step)
        self._bar = progress(total=steps, initial=start_step, desc=title, unit="step")

    def write(self, step: int, values: dict[str, Any]) -> None:
        """One line and one TensorBoard point a value."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            if isinstance(value, int | float):
                self._board.add_scalar(name, value, step)

    def advance(self, loss: float, images_per_second: float, mfu: float | None = None) -> None:
        """Move the bar by one step. ``mfu``: the share of the device's peak, if that is known."""
        shown = {"loss": f"{loss:.3f}", "images/s": f"{images_per_second:.0f}"}
        self._bar.set_postfix(shown if mfu is None else {**shown, "mfu": f"{mfu:.1%}"}, refresh=False)
        self._bar.update()

    def close(self) -> None:
        self._bar.close()
        self._board.close()
        self._file.close()
