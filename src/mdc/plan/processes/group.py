"""The data-parallel processes of one run: ranks, all-reduce and gather.

Every process holds the whole model and its part of each global batch. Losses divide by the global batch's normaliser, so the
gradients of the parts sum to that of the whole. All ranks get the same bits from a sum.
"""

import datetime
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from mdc.plan.host import started_by_torchrun
from mdc.plan.processes.interrupts import LostPeer
from mdc.plan.records import UserError

# How long a rank waits for one that validates, saves or compiles; a dead one is noticed at once
TIMEOUT = datetime.timedelta(minutes=30)


T = TypeVar("T")


class _Nothing:
    """Accepts every call and does nothing; false, and an empty context."""

    def __getattr__(self, _: str) -> "Callable[..., _Nothing]":
        return lambda *_, **__: self

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __bool__(self) -> bool:
        return False


#: in the place of what a process does not have, or leaves to the first one
NOTHING: Any = _Nothing()


class Group:
    """``rank`` of ``world`` processes. In a group of one, every method returns what it was given."""

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.rank, self.world = rank, world

    @property
    def alone(self) -> bool:
        return self.world == 1

    def first_only(self, make: Callable[[], T]) -> T:
        """The result of ``make`` on rank 0; elsewhere an object that does nothing."""
        return make() if self.rank == 0 else NOTHING

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks, in ``tensor``'s own memory."""
        if not self.alone:
            with translate_peer_failure():
                torch.distributed.all_reduce(tensor)
        return tensor

    def most(self, tensor: Tensor) -> Tensor:
        """The maximum over ranks, in ``tensor``'s own memory."""
        if not self.alone:
            with translate_peer_failure():
                torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX)
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """(b, …) of each rank → (world · b, …), in the order of ranks, without gradients."""
        if self.alone:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.world)]
        with translate_peer_failure():
            torch.distributed.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    def own_rows(self, size: int) -> range:
        """This rank's rows among ``size`` gathered ones."""
        return range(self.rank * (size // self.world), (self.rank + 1) * (size // self.world))

    def gather_objects(self, value: Any) -> list[Any]:
        """One value of each rank; meant for small values only."""
        if self.alone:
            return [value]
        values: list[Any] = [None] * self.world
        with translate_peer_failure():
            torch.distributed.all_gather_object(values, value)
        return values


SINGLE_PROCESS = Group()


def local_rank() -> int:
    """This process's rank on this machine, from torchrun; 0 without it."""
    return _number("LOCAL_RANK", alone=0)


def global_rank() -> int:
    """This process's rank in the run, from torchrun; 0 without it."""
    return _number("RANK", alone=0)


@contextmanager
def process_group(processes: int, device: torch.device) -> Iterator[Group]:
    """Join the run's other processes (nccl on a GPU, gloo on a CPU).

    The group is destroyed only if the block succeeds: with nccl this waits for all ranks, which would delay the error of a failed
    one. A failed process ends at once (:func:`mdc.training.launch.leave`), and torchrun ends the others.

    Raises UserError if torchrun started a different number of processes than the run's recipe names.
    """
    world = _number("WORLD_SIZE", alone=1)
    if world != processes:
        raise UserError(
            f"recipe.processes is {processes}, but torchrun started {world} (WORLD_SIZE); "
            f"allowed: --nproc-per-node so that there are {processes}, or no torchrun (mdc starts it by itself)"
        )
    if world == 1:
        yield SINGLE_PROCESS
        return
    on_gpu = device.type == "cuda"
    with translate_peer_failure():
        torch.distributed.init_process_group(
            "nccl" if on_gpu else "gloo", timeout=TIMEOUT, device_id=device if on_gpu else None
        )
    yield Group(torch.distributed.get_rank(), world)
    torch.distributed.destroy_process_group()


@contextmanager
def translate_peer_failure() -> Iterator[None]:
    """Turn network errors, caused by the end of another process, into LostPeer; other errors pass."""
    try:
        yield
    except torch.distributed.DistError as error:  # nccl: an aborted communicator; any: no answer from the store
        raise LostPeer(_first_line(error)) from None
    except RuntimeError as error:
        if "gloo/transport" not in str(error):  # gloo: a closed connection, or no answer within the time-out
            raise
        raise LostPeer(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _number(name: str, alone: int) -> int:
    return int(os.environ[name]) if started_by_torchrun() else alone
