"""Every kind of source, encoder, backbone and the like, of the core and of extensions; and the types of their entries."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Tag

from mdc.plan.config.kinds import choice_sources, encoders, heads, sources
from mdc.plan.config.kinds.backbones import Backbone, FrozenBackbone, FrozenEncoderBackbone
from mdc.plan.config.kinds.choice_sources import ChoiceSource
from mdc.plan.config.kinds.distortion import Distortion
from mdc.plan.config.kinds.encoders import Behind, Encoder
from mdc.plan.config.kinds.heads import Head
from mdc.plan.config.kinds.kind import kinds, of_extensions, union
from mdc.plan.config.kinds.sources import CorpusSource, ProbeSource
from mdc.plan.config.kinds.unmasking_order import UnmaskingOrder
from mdc.plan.config.types import Strict

CORPORA = kinds(CorpusSource, *sources.CORPORA)
PROBES = kinds(ProbeSource, *sources.PROBES)
CHOICES = kinds(ChoiceSource, *choice_sources.CHOICES)
ENCODERS = kinds(Encoder, *encoders.ENCODERS)
HEADS = kinds(Head, *heads.HEADS)  # type: ignore[type-abstract]
DISTORTIONS = kinds(Distortion)  # type: ignore[type-abstract]
ORDERS = kinds(UnmaskingOrder)
#: with a trained encoder
BACKBONES: tuple[type[Backbone], ...] = (Backbone, *of_extensions(Backbone))


def _by_own_keys(*classes: type[Strict]) -> Any:
    """The type of a backbone of any of the ``classes``, by the keys that a vision transformer does not have, so that an error is
    reported for the right class."""
    own = {one.__name__: set(one.model_fields) - set(Backbone.model_fields) for one in classes}

    def which(value: Any) -> str:
        if isinstance(value, Strict):
            return type(value).__name__
        there = value.keys() if isinstance(value, dict) else ()
        return next((name for name, keys in own.items() if keys.intersection(there)), Backbone.__name__)

    return Annotated[reduce(or_, (Annotated[one, Tag(one.__name__)] for one in classes)), Discriminator(which)]


# as a scale has a backbone, as a run's job has it, and one whose encoder is trained
if TYPE_CHECKING:
    AnyBackbone = Backbone | FrozenBackbone
    JobBackbone = Backbone | FrozenEncoderBackbone
    TrainedBackbone = Backbone
else:
    AnyBackbone = _by_own_keys(*BACKBONES, FrozenBackbone)
    JobBackbone = _by_own_keys(*BACKBONES, FrozenEncoderBackbone)
    TrainedBackbone = _by_own_keys(*BACKBONES)


class RunBehind(Behind):
    """A run. ``contrastive``: whether its feature is [CLS]. It is in this module because its backbone's type is made here."""

    kind: Literal["run"]
    backbone: TrainedBackbone
    contrastive: bool


_BEHIND = kinds(Behind, RunBehind)

if TYPE_CHECKING:
    AnyCorpus = CorpusSource
    AnyProbe = ProbeSource
    AnyChoice = ChoiceSource
    AnyEncoder = Encoder
    AnyHead = Head
    AnyBehind = Behind
    AnyDistortion = Distortion
    AnyOrder = UnmaskingOrder
else:
    AnyCorpus, AnyProbe, AnyChoice = map(union, (CORPORA, PROBES, CHOICES))
    AnyEncoder, AnyHead, AnyBehind = map(union, (ENCODERS, HEADS, _BEHIND))
    AnyDistortion = union(DISTORTIONS) if DISTORTIONS else Distortion
    AnyOrder = union(ORDERS) if ORDERS else UnmaskingOrder
