"""Table 3 and Figure 6: systems, captioned datasets, and claims."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from mdc.plan.config.distortion import Kind
from mdc.plan.config.judge import ByClipScore, Contest, Judge
from mdc.plan.config.references import (
    BackboneName,
    BackboneNames,
    CorpusName,
    FinetuneName,
    MethodName,
    Ref,
    SystemNames,
    TrainedOn,
)
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.systems import CaptionSystem, SystemEntry, Systems, expand
from mdc.plan.config.types import (
    MOST_CLAIMS,
    Claims,
    DataPath,
    Name,
    Names,
    NonNegative,
    Pairs,
    Parameters,
    Positive,
    Side,
    SomeUnique,
    Strict,
    Unique,
    WithClaims,
    check_reference,
    check_unique_labels,
    unknown,
    within,
)

#: the row of the most-frequent-caption baseline, which needs no model
MOST_FREQUENT = "most_frequent"
#: the metrics of which a claim can be made
Claimed = Literal["BLEU-4", "METEOR", "CIDEr", "SPICE", "ROUGE-L", "CLIPScore", "RefCLIPScore", "precision", "recall"]

#: one side of a comparison, and the rule for both
_Side = Annotated[Side, Ref("sides", "dataset/system of this table")]
_ONE_DATASET = within("datasets, whose images differ")


class CaptionedImages(Strict):
    """The first ``images`` of a corpus's ``split``; their captions are the references.

    ``pretrained``: the corpus of the runs that caption them. ``tuned``: name of a finetuning in the table's systems → its key
    in the scale's ``finetune``, or None (the run was trained on these captions from the start). ``training``: the corpus whose
    training captions are searched for copies; its most frequent one is the baseline. ``backbone``: of the runs, if it is not the
    table's. ``systems``: the table's systems that caption these images, None for all. ``instances``: MSCOCO's file of the objects
    in these images, for CHAIR.
    """

    label: str
    corpus: CorpusName
    split: Literal["train", "val", "test"] = "test"
    images: Annotated[int, Field(ge=2)]
    pretrained: TrainedOn
    tuned: dict[Name, FinetuneName | None] = Field(default_factory=dict)
    training: CorpusName
    backbone: BackboneName | None = None
    systems: SystemNames | None = None
    instances: DataPath | None = None

    def tuned_as(self, system: CaptionSystem) -> str | None:
        """The key of a system's finetuning here; None if it is not finetuned."""
        return self.tuned[system.tuned] if system.tuned is not None else None


class Coca(OpenClipModel):
    """open_clip's CoCa as a reference row: ``model`` with ``weights`` by name, or ``local-dir:FOLDER``. It captions
    ``datasets`` by beam search with ``num_beams`` beams (1: greedy) and at most ``max_tokens`` tokens, start and end included."""

    datasets: SomeUnique[Annotated[Name, Ref("datasets", "dataset")]]
    num_beams: Positive = 6
    max_tokens: Annotated[int, Field(ge=6, le=76)] = 30


class RunClip(Strict):
    """A CLIP run of the scale: ``method`` trained on the dataset's ``pretrained`` corpus, on the table's backbone or another one,
    with the scale's first ``seed`` or another one of its seeds."""

    kind: Literal["run"]
    method: MethodName
    backbone: BackboneName | None = None
    seed: NonNegative | None = None

    def on(self, table: "CaptionTable") -> str:
        """Its backbone in a table."""
        return self.backbone or table.backbones[0]

    def of(self, seeds: list[int]) -> int:
        """Its seed, in a scale of these seeds."""
        return seeds[0] if self.seed is None else self.seed


class OpenClip(OpenClipModel):
    """CLIPScore by a model of open_clip; ``prefix`` is prepended to every caption."""

    kind: Literal["open_clip"]
    prefix: str = "A photo depicts "


class CaptionTable(WithClaims):
    """Table 3. ``contrasts`` and ``primary``: pairs of systems, as dataset/system, the first minus the second, all of their
    metrics and ``primary_metric`` alone.

    ``coca``: reference rows by an external model. ``skip_metrics``: metrics that are not measured; their programs are slow.
    ``examples``: number of images in Figure 6, drawn with ``seed``. ``steps``: sampling steps of the diffusion systems that name
    none. ``clip_score``: the model of CLIPScore. ``guide``: the CLIP of guided systems; it must be another model than
    CLIPScore's, which would otherwise reward its own choices.
    """

    datasets: Annotated[dict[Name, CaptionedImages], Field(min_length=1)]
    backbones: Annotated[BackboneNames, Field(max_length=1)]
    entries: Annotated[dict[Name, SystemEntry], Field(min_length=1, alias="systems")]
    coca: dict[Name, Coca] = Field(default_factory=dict)
    skip_metrics: Unique[Literal["METEOR", "SPICE"]] = Field(default_factory=list)
    clip_score: Annotated[RunClip | OpenClip, Field(discriminator="kind")] | None = None
    guide: RunClip | None = None
    judge: Judge | None = None
    primary_metric: Claimed = "CIDEr"
    contrasts: Annotated[Pairs[_Side], _ONE_DATASET] = Field(default_factory=list)
    primary: Annotated[Claims[_Side], _ONE_DATASET] = Field(default_factory=list)
    examples: Positive = 3
    seed: NonNegative = 0
    steps: Positive | None = None
    sections: ClassVar[tuple[str, ...]] = ("pretrain",)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        for key in (key for key, system in self.entries.items() if system.first_seed):
            yield f"{where}.systems.{key}.first_seed: Table 3 shows every seed; leave this key out"

    #: for a part of the table, the systems shown by dataset
    _shown: dict[str, set[str]] | None = PrivateAttr(default=None)

    @cached_property
    def expanded(self) -> Systems:
        return expand(self.entries, self.steps)

    @property
    def systems(self) -> dict[str, CaptionSystem]:
        """All systems of the expanded entries."""
        return self.expanded.all

    @property
    def sweeps(self) -> dict[str, list[str]]:
        """Entry → the systems that its name means in a list."""
        return self.expanded.members

    def members(self, listed: list[str]) -> list[str]:
        """``listed`` with each sweep replaced by its systems."""
        return [name for entry in listed for name in self.sweeps.get(entry, [entry])]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if MOST_FREQUENT in self.systems:
            raise ValueError(f"systems.{MOST_FREQUENT}: this row is in every table; give the system another key")
        for name in self.coca:
            if name in self.systems or name == MOST_FREQUENT:
                raise ValueError(f"coca.{name}: a system is called so; give it another key")
        for name, dataset in self.datasets.items():
            for key, system in self.systems_of(name).items():
                if system.tuned is not None and system.tuned not in dataset.tuned:
                    available = ", ".join(dataset.tuned) or "none"
                    raise ValueError(
                        f"systems.{key}.tuned = {system.tuned}: datasets.{name}.tuned does not name it; it has {available}"
                    )
        if self.judge is not None:
            labels = {name: contest.label for name, contest in self.judge.contests.items()}
            check_unique_labels("judge.contests", labels)
            if isinstance(self.judge.by, ByClipScore) and self.clip_score is None:
                raise ValueError("judge.by: clip_score needs a model; name one under clip_score")
        guided = [key for key, system in self.systems.items() if system.guided]
        if guided and self.guide is None:
            raise ValueError(f"systems.{guided[0]}.decode.guide: names no model; name a CLIP run under guide")
        return self

    @property
    def sides(self) -> dict[str, CaptionSystem]:
        """What comparisons may name: dataset/system → the system."""
        return {f"{name}/{key}": system for name in self.datasets for key, system in self.systems_of(name).items()}

    def systems_of(self, dataset: str) -> dict[str, CaptionSystem]:
        """The systems that caption a dataset, in the table's order."""
        listed = self.datasets[dataset].systems
        if self._shown is not None:
            keys = self._shown[dataset]
        elif listed is not None:
            keys = {name for key in listed for name in self.expanded.captioning.get(key, [key])}
        else:
            return self.systems
        return {key: system for key, system in self.systems.items() if key in keys}

    def coca_of(self, dataset: str) -> dict[str, Coca]:
        """The external models that caption a dataset."""
        return {key: model for key, model in self.coca.items() if dataset in model.datasets}

    def contests_of(self, dataset: str) -> dict[str, Contest]:
        """The judge's contests of a dataset: those whose systems all caption it; external models that do not are left out."""
        own, external = self.systems_of(dataset), self.coca_of(dataset)
        contests = {}
        for name, contest in self.judge.contests.items() if self.judge is not None else ():
            systems = [key for key in contest.systems if key in own or key in external]
            if len(systems) > 1 and all(key in systems or key in self.coca for key in contest.systems):
                contests[name] = contest.model_copy(update={"systems": systems})
        return contests

    def backbone_of(self, dataset: str, system: str | None = None) -> str:
        """The backbone of a dataset's runs, or of one system's runs there."""
        own = self.systems[system].backbone if system is not None else None
        return own or self.datasets[dataset].backbone or self.backbones[0]

    def view(self, shown: "CaptionView") -> "CaptionTable":
        """The part of this table that the view ``shown`` contains."""
        datasets = {name: dataset for name, dataset in self.datasets.items() if name in shown.datasets}
        pairs = {
            "contrasts": shown.contrasts,
            "primary": shown.primary,
            "primary_metric": shown.primary_metric or self.primary_metric,
        }
        part = self.model_copy(update={"datasets": datasets, "coca": {}, "judge": None, "order": shown.order, **pairs})
        part._shown = {name: set(self.systems_of(name)) & set(self.members(shown.systems)) for name in datasets}
        return part


class _OfCaptions(WithClaims):
    """A table or figure of a part of a section of captions."""

    sections: ClassVar[tuple[str, ...]] = ("captions",)


class CaptionView(_OfCaptions):
    """A table of some ``systems`` on some ``datasets`` of one section of the scale, ``mc_diffusion`` or ``claims``.

    ``contrasts`` and ``primary`` are as there. ``select_on``: the dataset on which the best system is chosen by the primary
    metric; the table's notes name it. ``first_seed``: only the first seed is shown. ``over``: pairs of systems that are compared
    over all datasets, which are splits of the same images; for each pair the claim is that the first is better. ``beside``:
    datasets that this comparison leaves out, such as an official split beside random ones. ``primary_metric``: the metric of the
    claims, if it is not the section's.
    """

    datasets: Names
    systems: Names
    primary_metric: Claimed | None = None
    contrasts: Annotated[Pairs[Side], _ONE_DATASET] = Field(default_factory=list)
    primary: Annotated[Claims[Side], _ONE_DATASET] = Field(default_factory=list)
    select_on: Name | None = None
    first_seed: bool = False
    over: Claims[Side] = Field(default_factory=list)
    beside: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _enough(self) -> Self:
        for name in self.beside:
            check_reference("beside", name, self.datasets, "dataset of this table (datasets)")
        compared = [name for name in self.datasets if name not in self.beside]
        if self.over and len(compared) < 2:
            raise ValueError(f"over: compares over datasets, and there is {' '.join(compared) or 'none'} alone")
        if self.over and self.primary:
            raise ValueError(
                "over: its pairs are the claims of the table; leave primary out, or name it in another table"
            )
        if self.beside and not self.over:
            raise ValueError("beside: beside the datasets that are compared over, and over names no pair of systems")
        for side in (side for pair in self.over for side in pair):
            check_reference("over", side, self.systems, "system of this table (systems)")
        return self


class GuidanceCurve(Strict):
    """Systems that differ only in their guidance scale, in the order of the scales; at least two."""

    label: str
    systems: Names


class GuidanceFigure(_OfCaptions):
    """CLIPScore over each reference-based metric, one curve per kind of guidance (MC-Diffusion, figure 3), on one dataset.

    ``primary``: pairs of curves, the first minus the second at equal CIDEr, by interpolation.
    """

    dataset: Name
    curves: Annotated[dict[Name, GuidanceCurve], Field(min_length=1)]
    primary: Claims[Annotated[Side, Ref("curves", "curve (curves)")]] = Field(default_factory=list)


class RobustnessFigure(_OfCaptions):
    """How the captions of ``systems`` on one dataset degrade under image distortions, one panel per kind of distortion.

    ``primary``: pairs of systems; the claim is that the first keeps more of its quality at the strongest distortion of each kind
    in ``primary_kinds``, by default of all ``kinds``. For the other kinds the difference is shown without a claim.
    """

    dataset: Name
    systems: Names
    kinds: SomeUnique[Kind]
    primary: Pairs[Side] = Field(default_factory=list)
    primary_kinds: Unique[Kind] | None = None

    @property
    def primary_kinds_or_all(self) -> list[Kind]:
        return self.kinds if self.primary_kinds is None else self.primary_kinds

    @model_validator(mode="after")
    def _few_claims(self) -> Self:
        for kind in self.primary_kinds_or_all:
            check_reference("primary_kinds", kind, self.kinds, "kind of this figure (kinds)")
        count = len(self.primary) * len(self.primary_kinds_or_all)
        if count > MOST_CLAIMS:
            raise ValueError(
                f"primary: {len(self.primary)} pairs on {len(self.primary_kinds_or_all)} kinds are {count} claims, allowed: "
                f"{MOST_CLAIMS}; name fewer pairs, or the kinds that are claimed (primary_kinds: [{self.kinds[0]}])"
            )
        return self


class CaptionExamplesOf(Parameters):
    """Examples of a section's captions by ``systems`` on one dataset (MC-Diffusion, table 2)."""

    dataset: Name
    systems: Names

    sections: ClassVar[tuple[str, ...]] = ("captions",)


class CaptionFigure(Parameters):
    """Figure 6: example images of Table 3 with the captions of all its systems. ``omit``: systems that are shown on its page
    only, not in its picture."""

    omit: Unique[Name] = Field(default_factory=list)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        if (table3 := params.tables.get("table3")) is None:
            yield f"{where} shows captions of table3, and there is none"
        else:
            yield from unknown(f"{where}.omit", self.omit, [*table3.systems, *table3.coca], "system of table3")
