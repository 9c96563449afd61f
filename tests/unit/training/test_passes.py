"""Two real processes against one: the same gradients, whatever the objective and the parts."""

import socket
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
import toy
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.plan.processes.group import SINGLE_PROCESS, Group, process_group
from mdc.training.passes import Passes

CASES = [(method, parts, low) for method in sorted(toy.ALL_METHODS) for parts in (1, 2) for low in (False, True)]
#: a batch whose second half is not masked anywhere, so that one of the processes learns nothing
UNMASKED = ("mdc", 2, False)


def gradients(case: tuple[str, int, bool], batch: CaptionBatch, group: Group) -> dict[str, Tensor]:
    method, parts, low = case
    model = toy.model(method)
    objective = toy.objective(method, model, group=group, duplicate_share=1.0)
    if low:
        objective.passes.send_in_bf16()
    found = toy.backward(objective, batch, parts)
    return {**toy.gradients(model), "loss": found["loss"]}


def batch_of(case: tuple[str, int, bool], nothing_masked: bool) -> CaptionBatch:
    whole = toy.batch(8, draws=case[0] in ("mcd", "dropped"))
    whole.caption_hash[[1, 5]] = whole.caption_hash[[0, 2]]  # equal captions in one part, and in two processes
    where = torch.where(torch.arange(8)[:, None] < 4, whole.uniforms, torch.ones(()))
    return replace(whole, uniforms=where) if nothing_masked else whole


def half(batch: CaptionBatch, rank: int) -> CaptionBatch:
    rows = slice(4 * rank, 4 * rank + 4)
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return CaptionBatch(**{name: None if value is None else value[rows] for name, value in values.items()})


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    with process_group(2, toy.CPU) as group:
        found = [gradients(case, half(batch_of(case, False), rank), group) for case in CASES]
        found.append(gradients(UNMASKED, half(batch_of(UNMASKED, True), rank), group))
    torch.save(found, Path(folder) / f"{rank}.pt")


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Tensor]]]:
    """Of each process what it has in the end, for every case."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    processes = []
    with pytest.MonkeyPatch.context() as patch:
        run = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        for name, value in run.items():
            patch.setenv(name, value)
        for rank in range(2):
            patch.setenv("RANK", str(rank))
            processes.append(context.Process(target=work, args=(rank, str(folder))))
            processes[-1].start()
        for process in processes:
            process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("number", range(len(CASES) + 1))
def test_gradients_are_the_whole_batchs(of_two: Any, number: int) -> None:
    case, nothing_masked = ([*CASES, UNMASKED])[number], number == len(CASES)
    right = gradients((case[0], 1, False), batch_of(case, nothing_masked), SINGLE_PROCESS)
    for found in (of_two[0][number], of_two[1][number]):
        assert found.keys() == right.keys()
        for name, value in right.items():
            share = 2**-7 if case[2] else 1e-5
            close = {"rtol": share, "atol": share * float(value.abs().max())}
            assert torch.allclose(found[name], value, **close), (case, name)
    assert all(torch.equal(of_two[0][number][name], of_two[1][number][name]) for name in right), "the processes differ"


def test_a_model_that_nobody_trains_needs_no_sums() -> None:
    model = toy.model("arc").requires_grad_(False)
    assert Passes(model, lambda part: part + 1, SINGLE_PROCESS)(1) == 2
