"""Which device a job computes on, and that fp32 means fp32 there."""

from __future__ import annotations

import pytest
import torch

from mdc.records import UserError
from mdc.training.device import choose_device


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """As if this machine had two; the ones that were taken."""
    taken: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    return taken


def test_each_process_takes_the_gpu_of_its_number(two_gpus: list[torch.device]) -> None:
    assert choose_device("auto") == torch.device("cuda", 0) and choose_device("cuda", 1) == torch.device("cuda", 1)
    assert two_gpus == [torch.device("cuda", 0), torch.device("cuda", 1)]
    with pytest.raises(UserError, match="process 2 of this machine has no GPU: 2 are visible"):
        choose_device("cuda", 2)


def test_fp32_is_not_computed_as_tf32(two_gpus: list[torch.device]) -> None:
    assert choose_device("cpu") == torch.device("cpu") and torch.backends.cudnn.allow_tf32
    choose_device("auto")
    assert not torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "highest"


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(UserError, match=r"allowed here: cpu, auto"):
        choose_device("cuda")
