"""Every kind of source, encoder and head, of the core and of extensions, by its name; and the types of their entries."""

from typing import TYPE_CHECKING

from mdc.plan.config import choice_sources, encoders, heads, sources
from mdc.plan.config.choice_sources import ChoiceSource
from mdc.plan.config.encoders import Behind, Encoder, RunBehind
from mdc.plan.config.heads import Head
from mdc.plan.config.kind import kinds, union
from mdc.plan.config.sources import CorpusSource, ProbeSource

CORPORA = kinds(CorpusSource, *sources.CORPORA)
PROBES = kinds(ProbeSource, *sources.PROBES)
CHOICES = kinds(ChoiceSource, *choice_sources.CHOICES)
ENCODERS = kinds(Encoder, *encoders.ENCODERS)
HEADS = kinds(Head, *heads.HEADS)  # type: ignore[type-abstract]
_BEHIND = kinds(Behind, RunBehind)

if TYPE_CHECKING:
    AnyCorpus = CorpusSource
    AnyProbe = ProbeSource
    AnyChoice = ChoiceSource
    AnyEncoder = Encoder
    AnyHead = Head
    AnyBehind = Behind
else:
    AnyCorpus, AnyProbe, AnyChoice = map(union, (CORPORA, PROBES, CHOICES))
    AnyEncoder, AnyHead, AnyBehind = map(union, (ENCODERS, HEADS, _BEHIND))
