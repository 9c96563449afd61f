"""CLIP-benchmark's linear probe, which insists on a GPU, as a module that a test can run without one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def without_assertions() -> ModuleType:
    """CLIP-benchmark's module compiled as ``python -O`` would: without its assertion that the device is CUDA."""
    spec = importlib.util.find_spec("clip_benchmark.metrics.linear_probe")
    assert spec is not None and spec.origin is not None
    module = ModuleType("clip_benchmark.metrics.linear_probe_without_assertions")
    module.__package__ = "clip_benchmark.metrics"
    exec(compile(Path(spec.origin).read_text(), spec.origin, "exec", optimize=1), module.__dict__)
    return module
