"""What an objective is: a module that builds a method's model, and an object that turns batches into its gradients.

The training loop knows nothing else about methods. A new one is an entry in params.yaml and, if none of the modules in
``mdc.plan.parts.OBJECTIVES`` is its objective, one more module there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.models.build import ModelSetup
from mdc.models.image_text import ImageText
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.config.pretrain import Method
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.processes.group import SINGLE_PROCESS, Group
from mdc.training.passes import Passes


class Objective(Interface):
    """What the trainer asks of a method."""

    passes: Passes

    def prepare(self, batch: CaptionBatch, micro_batches: int = 1, held_out: bool = False) -> Any:
        """What the device needs of a batch that is still on the host, in ``micro_batches`` parts: a named tuple of tensors.

        All that has to look at values (lengths, which tokens are supervised) happens here, so that the rest never waits for
        the device. ``held_out``: for :meth:`evaluate`, which takes one part.
        """
        ...

    def backward(self, prepared: Any) -> dict[str, Tensor]:
        """Add to the parameters the gradient of the global batch's loss: each process makes its own part's passes, and ``passes``
        sums over them. What is returned (``loss`` in nats, and more,
        scalars on the device) is the global batch's, the same on all processes.
        """
        ...

    def evaluate(self, prepared: Any) -> tuple[Tensor, Tensor]:
        """(sum, count) of the loss on a held-out batch that this process has whole, without gradients."""
        ...

    def after_step(self) -> None:
        """What must hold after the optimiser moved."""
        ...


@dataclass(frozen=True)
class Setup:
    """What an objective is made for. ``batch_size``: of the global batch. ``duplicate_share``: of the corpus's captions in such a
    batch, as its manifest has it. ``group``: the processes that share each batch."""

    method: Method
    protocol: ProtocolPretrain
    mask_id: int
    batch_size: int
    precision: str
    duplicate_share: float = 0.0
    group: Group = SINGLE_PROCESS

    @classmethod
    def of(cls, job: PretrainJob, mask_id: int, **more: Any) -> Setup:
        """That of a run; ``more``: what follows from its data and its processes."""
        recipe = job.recipe
        return cls(job.method, job.protocol.pretrain, mask_id, recipe.batch_size, recipe.precision, **more)


class ObjectiveModule(Interface):
    """What a module of ``mdc.plan.parts.OBJECTIVES`` has.

    One may also have ``of_run(job, corpus)``: what ``build_objective`` is told by name besides, of a run that is trained, from
    its job and its :class:`mdc.training.corpus.Corpus`.
    """

    def build_model(self, setup: ModelSetup) -> ImageText:
        """The model of a method, as :func:`mdc.models.build.build` has it made."""
        ...

    def build_objective(self, model: Any, setup: Setup) -> Objective:
        """The objective of a method's entry for a model of ``build_model``."""
        ...
