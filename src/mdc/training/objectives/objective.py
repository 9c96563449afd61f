"""The interface of objectives: a module that builds a method's model, and an object that turns batches into gradients.

The training loop knows nothing else about methods. The module is the ability ``train`` of a method's class
(:class:`mdc.plan.config.method.Method`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.models.build import ModelSetup
from mdc.models.image_text import ImageText
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.processes.group import SINGLE_PROCESS, Group
from mdc.training.passes import Passes


class Objective(Interface):
    """The trainer's interface to a method."""

    passes: Passes

    def prepare(self, batch: CaptionBatch, micro_batches: int = 1, held_out: bool = False) -> Any:
        """A batch on the host, prepared for the device in ``micro_batches`` parts: a named tuple of tensors.

        Everything that depends on values (lengths, supervised tokens) happens here, so that later steps never synchronise with
        the device. ``held_out``: for :meth:`evaluate`, which takes one part.
        """
        ...

    def backward(self, prepared: Any) -> dict[str, Tensor]:
        """Add the gradient of the global batch's loss to the parameters: each process computes its own part, and ``passes`` sums
        over processes. Returns scalars on the device (``loss`` in nats, and more) of the global batch, equal on all processes.
        """
        ...

    def evaluate(self, prepared: Any) -> tuple[Tensor, Tensor]:
        """(sum, count) of the loss on one of this process's held-out batches, without gradients."""
        ...

    def after_step(self) -> None:
        """Called after every optimiser step, for constraints on parameters."""
        ...


@dataclass(frozen=True)
class Setup:
    """The setup of an objective. ``batch_size``: global. ``duplicate_share``: of captions in such a batch, from the corpus's
    manifest. ``group``: the processes that share each batch."""

    method: Any
    protocol: ProtocolPretrain
    mask_id: int
    batch_size: int
    precision: str
    duplicate_share: float = 0.0
    group: Group = SINGLE_PROCESS

    @classmethod
    def of(cls, job: PretrainJob, mask_id: int, **more: Any) -> "Setup":
        """The setup of a run; ``more``: values from its data and processes."""
        recipe = job.recipe
        return cls(job.method, job.protocol.pretrain, mask_id, recipe.batch_size, recipe.precision, **more)


@dataclass(frozen=True)
class Needs:
    """What an objective needs of a batch. ``filled``: captions padded to one length, with a loss on the padding, and the draws of
    replaced tokens. ``patches``: a draw for each patch token."""

    filled: bool = False
    patches: bool = False


def needs_of(method: Any) -> Needs:
    """What the objective of a method needs of a batch."""
    needs: Callable[[Any], Needs] | None = getattr(method.load("train"), "needs", None)
    return needs(method) if needs is not None else Needs()


class ObjectiveModule(Interface):
    """The interface of a method's module of the ability ``train``.

    Optional: ``needs(method)``, what it needs of a batch; ``of_run(job, corpus)``, further keyword arguments of
    ``build_objective`` in training, from the job and its :class:`mdc.training.corpus.Corpus`.
    """

    def build_model(self, setup: ModelSetup) -> ImageText:
        """The model of a method, for :func:`mdc.models.build.build`."""
        ...

    def build_objective(self, model: Any, setup: Setup) -> Objective:
        """The objective of a method's entry for a model of ``build_model``."""
        ...
