"""CLIP-benchmark: its linear probe, which insists on a GPU, as a module that a test can run without one, and a set of pairs."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from mdc.plan.records import read_json


def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """CLIP-benchmark's module compiled as ``python -O`` would, without its assertion that the device is CUDA; its moves to
    CUDA are undone."""
    monkeypatch.setattr(torch.nn.Module, "cuda", lambda self: self)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    monkeypatch.setattr(torch.nn, "DataParallel", lambda module, device_ids: module)
    spec = importlib.util.find_spec("clip_benchmark.metrics.linear_probe")
    assert spec is not None and spec.origin is not None
    module = ModuleType("clip_benchmark.metrics.linear_probe_without_assertions")
    module.__package__ = "clip_benchmark.metrics"
    exec(compile(Path(spec.origin).read_text(), spec.origin, "exec", optimize=1), module.__dict__)
    return module


def retrieval(r: Path, folder: Path) -> list[str]:
    """The words that ask for its retrieval of held-out pairs, which ``folder`` gets in the layout of its wds sets."""
    (folder / "test").mkdir(parents=True)
    (shard,) = read_json(r / "data/corpora/alt/index.json")["splits"]["val"]["shards"]
    (folder / "test/0.tar").write_bytes((r / "data/corpora/alt" / shard["file"]).read_bytes())
    (folder / "test/nshards.txt").write_text("1")
    (folder / "dataset_type.txt").write_text("retrieval")
    words = ["eval", "--task", "zeroshot_retrieval", "--dataset", "wds/ours", "--dataset_root", str(folder)]
    return [*words, "--no_amp", "--num_workers", "0", "--batch_size", "8"]
