"""A profile of a few steps of a run: a trace for Chrome's or Perfetto's viewer, and a table."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from mdc.plan.records import UserError, atomic_path, write_text

TRACE, TABLE = "trace.json", "operations.txt"
#: steps before the profiled ones: the first steps allocate memory, choose kernels and compile
WARM = 3
_SHOWN = 20


class StepProfile(AbstractContextManager["StepProfile"]):
    """Profiles ``steps`` steps after the first ``WARM`` of this process, writes ``trace.json`` (Chrome's format) and
    ``operations.txt`` (the twenty slowest operations) into ``folder``, and prints their paths.

    It changes no number of the run, but profiled steps are slower. A run that ends earlier writes the steps so far. Wrap the
    steps in it, and call :meth:`after_step` after each. UserError if ``steps`` is not positive.
    """

    def __init__(self, folder: Path, steps: int, device: torch.device) -> None:
        if steps < 1:
            raise UserError(f"--profile {steps}: it takes a number of steps; allowed: 1 or more")
        self._folder, self._steps, self._cuda = folder, steps, device.type == "cuda"
        self._done, self._written = 0, False
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._cuda else [])]
        # the last warm step is traced and discarded: starting to trace takes time
        planned = schedule(skip_first=WARM - 1, wait=0, warmup=1, active=steps, repeat=1)
        self._profiler = profile(activities=activities, schedule=planned, on_trace_ready=self._write)

    def __enter__(self) -> "StepProfile":
        self._profiler.start()
        return self

    def after_step(self) -> None:
        """Call after every step."""
        self._done += 1
        self._profiler.step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._profiler.stop()
        if not self._written and kind is None:
            self._say(f"nothing was written: {self._done} steps were left, and {WARM} come before the first one")

    def _write(self, profiler: profile) -> None:
        if self._done <= WARM:
            return  # it ended in the warm-up
        self._written = True
        with atomic_path(self._folder / TRACE) as temporary:
            profiler.export_chrome_trace(str(temporary))
        by = "self_device_time_total" if self._cuda else "self_cpu_time_total"
        table = profiler.key_averages().table(sort_by=by, row_limit=_SHOWN)
        write_text(self._folder / TABLE, table + "\n")
        steps = min(self._steps, self._done - WARM)
        self._say(f"{steps} steps after the first {WARM}: {self._folder / TRACE}, {self._folder / TABLE}")

    @staticmethod
    def _say(message: str) -> None:
        print(f"profile: {message}", file=sys.stderr, flush=True)
