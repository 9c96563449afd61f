"""A run's log: JSON lines, TensorBoard, and a progress bar."""

import json
import os
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from mdc.plan.records import read_json_lines, write_text
from mdc.training.metrics import Measured


class RunLog(AbstractContextManager["RunLog"]):
    """Appends to ``log.jsonl``; after a resume, lines beyond the resumed step are dropped first.

    ``every``: steps per line; ``images``: per step; ``least_seconds``: of a step at the device's peak, if known, to log the model
    FLOPs utilisation.
    """

    def __init__(
        self,
        folder: Path,
        start_step: int,
        steps: int,
        title: str,
        every: int = 1,
        images: int = 1,
        least_seconds: float | None = None,
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        from mdc.plan.progress import progress

        folder.mkdir(parents=True, exist_ok=True)
        if not start_step:  # an earlier configuration's curves are not this run's
            shutil.rmtree(folder / "tensorboard", ignore_errors=True)
        self.path = folder / "log.jsonl"
        kept = [line for line in read_json_lines(self.path) if line["step"] <= start_step] if start_step else []
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self.path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=start_step + 1)
        self._bar = progress(total=steps, initial=start_step, desc=title, unit="step")
        self._last, self._every, self._images, self._least = steps, every, images, least_seconds
        self._restart_clock()

    def steps(self, measured: list[Measured]) -> None:
        """Show the metrics of steps on the bar, and log them every few steps."""
        for step, values in measured:
            self._steps += 1
            seconds = max(time.perf_counter() - self._began, 1e-9) / self._steps
            speed = {"images_per_second": self._images / seconds}
            if self._least is not None:
                speed["mfu"] = self._least / seconds
            shown = {"loss": f"{values['loss']:.3f}", "images/s": f"{speed['images_per_second']:.0f}"}
            self._bar.set_postfix(shown | {k: f"{v:.1%}" for k, v in speed.items() if k == "mfu"}, refresh=False)
            self._bar.update()
            done = step + 1
            if done % self._every == 0 or done == self._last:
                self._write(done, values | speed)
                self._restart_clock()

    def validation(self, step: int, values: dict[str, float]) -> None:
        """Log held-out metrics after ``step``; the clock restarts, so speeds exclude validation."""
        self._write(step, {f"validation_{name}": value for name, value in values.items()})
        os.fsync(self._file.fileno())  # the state that follows is resumed by what this line says
        self._restart_clock()

    def _write(self, step: int, values: dict[str, Any]) -> None:
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def _restart_clock(self) -> None:
        self._began, self._steps = time.perf_counter(), 0

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self._board.close()
        self._file.close()
