"""Heads of probes: the linear probe of the paper, and others."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mdc.plan.config.kinds.kind import Kind
from mdc.plan.config.types import NonNegative, Positive, Strict, Threads


class Features(Strict):
    """How the features of any probe are computed, and its seed."""

    seed: NonNegative
    feature_batch: Positive
    precision: Literal["fp32", "bf16"]
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]


class Probe(Features):
    """The linear probe's recipe, which is CLIP-benchmark's (paper, appendix B).

    ``fused``: AdamW by PyTorch's fused kernel, which is faster and rounds differently from CLIP-benchmark's.
    """

    lr: Annotated[float, Field(gt=0)]
    epochs: Positive
    batch_size: Positive
    fused: bool = False


#: what a job of the linear probe loads
LINEAR = "mdc.evaluation.linear_probe"


class Head(Kind):
    """A head other than the linear probe. ``label``: its name in tables. Its module has ``fit``, and ``TOKENS``, whether it
    reads tokens instead of the pooled feature; ``reads_tokens`` says the same while planning."""

    label: str

    reads_tokens: ClassVar[bool] = False

    @abstractmethod
    def sentence(self) -> str:
        """Its description below a table."""

    def least_items(self) -> int:
        """The least number of training items that it can be fitted on."""
        return 1


class Attentive(Head):
    """One query attends over all tokens, then a linear layer; the best of the ``lr`` on a share ``held_out`` of the training
    items is chosen."""

    module = "mdc.evaluation.attentive_probe"
    reads_tokens = True
    kind: Literal["attentive"]
    lr: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]
    epochs: Positive
    batch_size: Positive
    held_out: Annotated[float, Field(gt=0, lt=1)]

    def sentence(self) -> str:
        """Its description below a table."""
        rates = ", ".join(f"{lr:g}" for lr in self.lr)
        return (
            f"one learnt query attends over [CLS] and the patch tokens, then a linear layer; {self.epochs} epochs; of the "
            f"learning rates {rates} the best on a held-out share {self.held_out:g} of the training items, fitted again on all"
        )


#: the core's kinds
HEADS = (Attentive,)
