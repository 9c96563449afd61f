"""What every method has: the base of the classes in the folders of objectives (``method.py`` in each).

A job's configuration holds a method's values, so no fingerprint covers these classes. What they say besides (which modules a job
loads, which estimators and decodings there are) is in the configurations that it decides, or in a job's list of modules. So
code that computes a result reads the fields of a method and nothing else.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from mdc.plan.config.decoding import Beam, Decoding, Unmasking
from mdc.plan.config.kinds.backbones import FrozenBackbone
from mdc.plan.config.kinds.known import AnyBackbone
from mdc.plan.config.types import Positive, Strict

#: a colour, and matplotlib's letter of a marker
Style = Annotated[
    tuple[Annotated[str, Field(pattern="^#[0-9A-Fa-f]{6}$")], Annotated[str, Field(min_length=1, max_length=1)]],
    Field(strict=False),
]


class Method(Strict):
    """What every method has: its ``objective``, which says the class of its other keys, and the ``pooling`` that is probed.

    ``steps``: ``half`` is half the epochs. ``batch_factor``: the batch is so many times as large; the number of epochs stays.
    ``ranked: false``: its row is grey and takes no part in best and second best. ``style``: its colour and marker in figures.
    """

    label: str
    objective: str
    pooling: Literal["patch_mean", "cls"]
    steps: Literal["half"] | None = None
    batch_factor: Positive = 1
    ranked: bool = True
    style: Style | None = None

    #: ability (train, score, generate, positions) → the module that a job loads for it; what is missing, its models cannot do
    abilities: ClassVar[Mapping[str, str]] = {}
    #: the kind of the decoding policies by which its models generate captions
    decoding: ClassVar[str | None] = None
    #: kinds that it brings: kind → (its class, that with a sweep in a scale); the core has unmask and beam
    decodings: ClassVar[Mapping[str, tuple[type[Decoding], type[Decoding]]]] = {}
    #: whether its models can be finetuned
    finetunes: ClassVar[bool] = True
    #: the feature that probes see unless ``pooling`` says otherwise: a run's own configuration has no pooling
    usual_pooling: ClassVar[Literal["patch_mean", "cls"]] = "patch_mean"
    #: what shares a panel of losses with it, and what its loss is per
    family: ClassVar[str] = "captioning"
    loss_per: ClassVar[Literal["token", "pair"]] = "token"
    #: keys of its runs that earlier versions wrote and nothing reads (:mod:`mdc.plan.jobs.read`)
    gone: ClassVar[tuple[str, ...]] = ()
    #: its own keys that an override of the recipe may set for some runs (:class:`mdc.plan.config.pretrain.Override`)
    by_run: ClassVar[tuple[str, ...]] = ()
    #: whether its models embed captions beside images, as CLIP
    embeds_captions: ClassVar[bool] = False

    @property
    def estimators(self) -> tuple[str, ...]:
        """The estimators of its captions' scores, its own first; none if it cannot score."""
        return ()

    @property
    def masked_share(self) -> tuple[float, float] | None:
        """The range of t, the share of masked tokens in training; None of a method without t."""
        return None

    @property
    def reverse(self) -> bool:
        """Whether it reads captions from right to left."""
        return False

    @property
    def reads_patches(self) -> bool:
        """Whether it is of patch tokens, and of no other visual context."""
        return False

    def load(self, ability: str) -> Any:
        """The module of an ability, imported now. KeyError if it has none."""
        return import_module(self.abilities[ability])

    def misfits(self, name: str, backbone: AnyBackbone, place: str) -> Iterator[str]:
        """Why the method ``name`` cannot be trained on a ``backbone``, which the key ``place`` names; a sentence each."""
        if isinstance(backbone, FrozenBackbone):
            return
        if self.reads_patches and backbone.visual_context != "patches":
            yield f"{place}.visual_context = {backbone.visual_context}: {name} is of patch tokens; allowed: patches"

    def needed(self, plan: Any, run: Any) -> tuple[Self, list[str]]:
        """The method as the job of a ``run`` has it, and the jobs whose results its training needs, besides those of data and of
        a frozen encoder. ``plan``: a :class:`mdc.plan.jobs.plan.Plan`."""
        return self, []

    def refusal(self, name: str, policy: Decoding, context_length: int) -> str | None:
        """Why the method ``name`` cannot decode by a ``policy``; None if it can."""
        if self.decoding is None:
            return f"the objective {self.objective} writes no captions"
        if policy.kind != self.decoding:
            own: dict[str, type[Decoding]] = {"unmask": Unmasking, "beam": Beam}
            own |= {kind: one for kind, (one, _) in self.decodings.items()}
            return f"{name} writes by {own[self.decoding].in_words}, not by {policy.in_words}"
        room = context_length - (1 if isinstance(policy, Unmasking) and policy.ends else 2)
        if policy.longest is not None and policy.longest > room:
            return f"captions of {policy.longest} BPE tokens are too long; at most {room} fit the context"
        return None
