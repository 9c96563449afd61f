"""Table 3 and Figure 6: whose captions of which images are measured, and what is claimed of them."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from mdc.plan.config.caption import Diffusing
from mdc.plan.config.distortion import Kind
from mdc.plan.config.judge import ByClipScore, Contest, Judge
from mdc.plan.config.references import (
    BackboneName,
    BackboneNames,
    CorpusName,
    CurvePair,
    FinetuneName,
    MethodName,
    Ref,
    SystemNames,
    TrainedOn,
)
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.systems import AskedSystem, CaptionSystem, Systems, written_out
from mdc.plan.config.types import (
    MOST_CLAIMS,
    DataPath,
    Name,
    Names,
    NonNegative,
    Positive,
    Side,
    SideClaims,
    SidePairs,
    SomeUnique,
    Strict,
    Unique,
    WithClaims,
    check_reference,
    check_unique_labels,
)

#: the row of the floor that needs no model: the most frequent training caption
MOST_FREQUENT = "most_frequent"
#: the metrics of which a claim can be made
Claimed = Literal["BLEU-4", "METEOR", "CIDEr", "SPICE", "ROUGE-L", "CLIPScore", "RefCLIPScore", "true", "told"]


class CaptionedImages(Strict):
    """The first ``images`` of a corpus's ``split``; their captions are the references.

    ``pretrained``: the corpus of the runs that caption them. ``tuned``: what the table's systems call a finetuning → its key
    in the scale's ``finetune``, or None where there is none (the run was trained on these captions from the start).
    ``training``: the corpus whose training captions are looked for among those that were written; its most frequent one is
    the floor. ``backbone``: of the runs, if it is not the table's; ``systems``: those of the table's that caption these
    images, None for all. ``instances``: MSCOCO's file of the objects in these images, by which CHAIR is measured.
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
        """The key of a system's finetuning here; None if it writes as it was pretrained."""
        return self.tuned[system.tuned] if system.tuned is not None else None


class Coca(OpenClipModel):
    """open_clip's CoCa as a row of reference: ``model`` with ``weights`` by name, or ``local-dir:FOLDER``; it captions
    ``datasets``, by beam search with so many ``num_beams`` (1 is greedy), at most ``max_tokens`` tokens with its start and
    end."""

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

    def on(self, table: CaptionTable) -> str:
        """Its backbone in a table."""
        return self.backbone or table.backbones[0]

    def of(self, seeds: list[int]) -> int:
        """Its seed, in a scale of these seeds."""
        return seeds[0] if self.seed is None else self.seed


class OpenClip(OpenClipModel):
    """CLIPScore by a model of open_clip; ``prefix`` stands before every caption."""

    kind: Literal["open_clip"]
    prefix: str = "A photo depicts "


class CaptionTable(WithClaims):
    """Table 3. ``contrasts`` and ``primary``: pairs of systems, as dataset/system, the first minus the second, all of their
    metrics and ``primary_metric`` alone.

    ``coca``: rows of reference by a model of others. ``skip_metrics``: metrics that are not to be measured; their programs take
    long. ``examples``: how many images Figure 6 shows, drawn with ``seed``. ``steps``: strides of the systems that diffuse and
    name none themselves. ``clip_score``: what CLIPScore is by. ``guide``: of the systems that write with one; it must be another
    model than that of CLIPScore, which would else reward what it has chosen itself.
    """

    datasets: Annotated[dict[Name, CaptionedImages], Field(min_length=1)]
    backbones: Annotated[BackboneNames, Field(max_length=1)]
    entries: Annotated[dict[Name, AskedSystem], Field(min_length=1, alias="systems")]
    coca: dict[Name, Coca] = Field(default_factory=dict)
    skip_metrics: Unique[Literal["METEOR", "SPICE"]] = Field(default_factory=list)
    clip_score: Annotated[RunClip | OpenClip, Field(discriminator="kind")] | None = None
    guide: RunClip | None = None
    judge: Judge | None = None
    primary_metric: Claimed = "CIDEr"
    contrasts: SidePairs = Field(default_factory=list)
    primary: SideClaims = Field(default_factory=list)
    examples: Positive = 3
    seed: NonNegative = 0
    steps: Positive | None = None
    #: of a part of the table, the systems of each dataset that it shows
    _shown: dict[str, set[str]] | None = PrivateAttr(default=None)

    @cached_property
    def written_out(self) -> Systems:
        return written_out(self.entries)

    @property
    def systems(self) -> dict[str, CaptionSystem]:
        """Every system that the entries expand to."""
        return self.written_out.all

    @property
    def sweeps(self) -> dict[str, list[str]]:
        """Entry → the systems that its name expands to in a list."""
        return self.written_out.members

    def members(self, listed: list[str]) -> list[str]:
        """``listed`` with the systems of each sweep in place of its name."""
        return [name for one in listed for name in self.sweeps.get(one, [one])]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if MOST_FREQUENT in self.systems:
            raise ValueError(f"systems.{MOST_FREQUENT}: this row stands in every table; give the system another key")
        for name in self.coca:
            if name in self.systems or name == MOST_FREQUENT:
                raise ValueError(f"coca.{name}: a system is called so; give it another key")
        for name, dataset in self.datasets.items():
            for key, system in self.systems_of(name).items():
                if system.tuned is not None and system.tuned not in dataset.tuned:
                    there = ", ".join(dataset.tuned) or "none"
                    raise ValueError(
                        f"systems.{key}.tuned = {system.tuned}: datasets.{name}.tuned does not name it; it has {there}"
                    )
        if self.judge is not None:
            labels = {name: contest.label for name, contest in self.judge.contests.items()}
            check_unique_labels("judge.contests", labels)
            if isinstance(self.judge.by, ByClipScore) and self.clip_score is None:
                raise ValueError("judge.by: clip_score needs a model; name one under clip_score")
        guided = [key for key, system in self.systems.items() if system.guided]
        if guided and self.guide is None:
            raise ValueError(f"systems.{guided[0]}.decode.guide: names no model; name a CLIP run under guide")
        for where, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            for pair in pairs:
                self._stand(where, pair)
        return self

    def systems_of(self, dataset: str) -> dict[str, CaptionSystem]:
        """The systems that caption a dataset's images, in the table's order, with the table's ``steps`` where they name none."""
        listed = self.datasets[dataset].systems
        if self._shown is not None:
            keys = self._shown[dataset]
        elif listed is not None:
            keys = {name for one in listed for name in self.written_out.captioning.get(one, [one])}
        else:
            return self.whole_systems
        return {key: one for key, one in self.whole_systems.items() if key in keys}

    @cached_property
    def whole_systems(self) -> dict[str, CaptionSystem]:
        """All systems, with the table's ``steps`` where they name none; planning asks for them hundreds of times."""
        return {key: self._whole(one) for key, one in self.systems.items()}

    def coca_of(self, dataset: str) -> dict[str, Coca]:
        """The models of others that caption a dataset's images."""
        return {key: one for key, one in self.coca.items() if dataset in one.datasets}

    def contests_of(self, dataset: str) -> dict[str, Contest]:
        """The judge's contests of a dataset: those whose systems all caption it; models of others enter where they do."""
        own, others = self.systems_of(dataset), self.coca_of(dataset)
        found = {}
        for name, contest in self.judge.contests.items() if self.judge is not None else ():
            systems = [one for one in contest.systems if one in own or one in others]
            if len(systems) > 1 and all(one in systems or one in self.coca for one in contest.systems):
                found[name] = contest.model_copy(update={"systems": systems})
        return found

    def backbone_of(self, dataset: str, system: str | None = None) -> str:
        """The backbone of a dataset's runs, or of a system's there."""
        own = self.systems[system].backbone if system is not None else None
        return own or self.datasets[dataset].backbone or self.backbones[0]

    def view(self, asked: CaptionView) -> CaptionTable:
        """The part of this table that ``asked`` shows."""
        datasets = {name: dataset for name, dataset in self.datasets.items() if name in asked.datasets}
        pairs = {
            "contrasts": asked.contrasts,
            "primary": asked.primary,
            "primary_metric": asked.primary_metric or self.primary_metric,
        }
        found = self.model_copy(update={"datasets": datasets, "coca": {}, "judge": None, "order": asked.order, **pairs})
        found._shown = {name: set(self.systems_of(name)) & set(self.members(asked.systems)) for name in datasets}
        return found

    def _whole(self, system: CaptionSystem) -> CaptionSystem:
        if isinstance(system.decode, Diffusing) and system.decode.steps is None:
            return system.model_copy(update={"decode": system.decode.model_copy(update={"steps": self.steps})})
        return system

    def _stand(self, where: str, pair: list[Side]) -> None:
        for side in pair:
            dataset, _, system = side.partition("/")
            if dataset not in self.datasets or system not in self.systems_of(dataset):
                there = ", ".join(f"{one}/{other}" for one in self.datasets for other in self.systems_of(one))
                raise ValueError(f"{where}: {side} is no dataset/system of this table; allowed: {there}")
        same_dataset(where, pair)


def same_dataset(where: str, pair: list[Side]) -> None:
    """ValueError for a ``pair`` of dataset/system whose datasets differ."""
    if len({side.partition("/")[0] for side in pair}) > 1:
        raise ValueError(f"{where}: [{', '.join(pair)}] compares datasets, whose images differ")


class CaptionView(WithClaims):
    """A table of some ``systems`` on some ``datasets`` of the captions that one section of the scale asks for.

    The section is the one that has these datasets: ``mc_diffusion`` or ``claims``. ``contrasts`` and ``primary`` as there.
    ``select_on``: the dataset on which the best of the systems is chosen by the metric that is claimed; it is named below the
    table. ``first_seed``: it is of the first seed alone. ``over``: pairs of systems that are compared over all its datasets,
    which are splits of the same images, but for those that stand ``beside``, as an official split does beside random ones; of
    each it is claimed that the first is better. ``primary_metric``: the metric that is claimed, if it is not the section's.
    """

    datasets: Names
    systems: Names
    primary_metric: Claimed | None = None
    contrasts: SidePairs = Field(default_factory=list)
    primary: SideClaims = Field(default_factory=list)
    select_on: Name | None = None
    first_seed: bool = False
    over: SideClaims = Field(default_factory=list)
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
    """Systems that differ in their scale of guidance alone, in the order of the scales; at least two, as a sweep has."""

    label: str
    systems: Names


class GuidanceFigure(WithClaims):
    """CLIPScore over each metric against references, a curve a kind of guidance (MC-Diffusion, figure 3), on one dataset.

    ``primary``: pairs of curves, the first minus the second at equal CIDEr, by interpolation.
    """

    dataset: Name
    curves: Annotated[dict[Name, GuidanceCurve], Field(min_length=1)]
    primary: Annotated[list[CurvePair], Field(max_length=MOST_CLAIMS)] = Field(default_factory=list)


class RobustnessFigure(WithClaims):
    """How fast the captions of ``systems`` on one dataset become worse as its images do, a panel a kind of distortion.

    ``primary``: pairs of systems; what is claimed is that the first keeps more of its quality at the strongest distortion of each
    kind in ``primary_kinds``, by default of all ``kinds``. Of the others the difference is shown.
    """

    dataset: Name
    systems: Names
    kinds: SomeUnique[Kind]
    primary: SidePairs = Field(default_factory=list)
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


class CaptionExamplesOf(Strict):
    """Examples of a section's captions by ``systems`` on one dataset (MC-Diffusion, table 2)."""

    dataset: Name
    systems: Names


class CaptionFigure(Strict):
    """Figure 6: example images of Table 3 with the captions of all its systems; ``omit`` names those that its page alone
    shows, not its picture."""

    omit: Unique[Name] = Field(default_factory=list)
