"""The section ``captions`` of a scale: captioned images, the systems that caption them, and what their captions are scored by."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from mdc.plan.config.decoding import Captioning, Unmasking
from mdc.plan.config.judge import ByClipScore, Contest, Judge
from mdc.plan.config.kinds.backbones import FrozenBackbone
from mdc.plan.config.methods import DECODINGS
from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.problems import short
from mdc.plan.config.references import BackboneName, CorpusName, FinetuneName, MethodName, Ref, SystemNames, TrainedOn
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.systems import CaptionSystem, SystemEntry, Systems, expand
from mdc.plan.config.types import (
    DataPath,
    Name,
    NonNegative,
    Positive,
    SomeUnique,
    Strict,
    Unique,
    WithClaims,
    check_reference,
    check_unique_labels,
    equal_labels,
    no_such,
    unknown,
)

#: the row of the most-frequent-caption baseline, which needs no model
MOST_FREQUENT = "most_frequent"
#: the metrics of which a claim can be made
Claimed = Literal["BLEU-4", "METEOR", "CIDEr", "SPICE", "ROUGE-L", "CLIPScore", "RefCLIPScore", "precision", "recall"]


class CaptionedImages(Strict):
    """The first ``images`` of a corpus's ``split``; their captions are the references.

    ``pretrained``: the corpus of the runs that caption them. ``tuned``: name of a finetuning in the systems → its key among
    ``finetunings``, or None (the run was trained on these captions from the start). ``training``: the corpus whose training
    captions are searched for copies; its most frequent one is the baseline. ``backbone``: of the runs, if it is not the
    section's. ``systems``: those that caption these images, None for all that a table or figure shows. ``skip_metrics``: metrics
    that are not measured; their programs are slow. ``instances``: MSCOCO's file of the objects in these images, for CHAIR.
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
    skip_metrics: Unique[Literal["METEOR", "SPICE"]] = Field(default_factory=list)
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


class Finetune(Strict):
    """Finetuning of pretrained captioners on a captioning corpus (paper, section 4.2), with its own recipe.

    It starts from their last or best ``weights``, and stops early after ``patience`` validations in a row without a new best.
    ``canvas``: masked models learn where captions end, on canvases of up to this many tokens (docs/captioning.md).
    """

    corpus: CorpusName
    recipe: Recipe
    patience: Positive
    weights: Literal["last", "best"] = "last"
    canvas: Annotated[int, Field(ge=2)] | None = None

    @model_validator(mode="after")
    def _rate(self) -> Self:
        if self.recipe.lr is None:
            raise ValueError("recipe.lr: this key is missing")
        return self


class RunClip(Strict):
    """A CLIP run of the scale: ``method`` trained on the dataset's ``pretrained`` corpus, on the section's backbone or another
    one, with the scale's first ``seed`` or another one of its seeds."""

    kind: Literal["run"]
    method: MethodName
    backbone: BackboneName | None = None
    seed: NonNegative | None = None

    def of(self, seeds: list[int]) -> int:
        """Its seed, in a scale of these seeds."""
        return seeds[0] if self.seed is None else self.seed


class OpenClip(OpenClipModel):
    """CLIPScore by a model of open_clip; ``prefix`` is prepended to every caption."""

    kind: Literal["open_clip"]
    prefix: str = "A photo depicts "


class Captions(Captioning):
    """Captioned ``datasets`` and the ``systems`` that caption them, of which each table and figure of captions shows a part; how
    captions are computed (:class:`mdc.plan.config.decoding.Captioning`).

    ``finetunings``: of the runs that caption. ``backbone``: of the runs, if no dataset or system names another; by default the
    scale's first. ``coca``: external models. ``usual``: values of each kind of decoding, where a system names none.
    ``clip_score``: the model of CLIPScore. ``guide``: the CLIP of guided systems; it must be another model than CLIPScore's,
    which would otherwise reward its own choices. ``seed``: of the mismatched images.
    """

    datasets: Annotated[dict[Name, CaptionedImages], Field(min_length=1)]
    backbone: BackboneName
    entries: Annotated[dict[Name, SystemEntry], Field(min_length=1, alias="systems")]
    finetunings: dict[Name, Finetune] = Field(default_factory=dict)
    coca: dict[Name, Coca] = Field(default_factory=dict)
    clip_score: Annotated[RunClip | OpenClip, Field(discriminator="kind")] | None = None
    guide: RunClip | None = None
    judge: Judge | None = None
    seed: NonNegative = 0
    usual: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, values: Any) -> Any:
        """Check the usual values of each decoding, and give them to its systems."""
        usual, systems = (values.get(key) for key in ("usual", "systems")) if isinstance(values, dict) else (None, None)
        if not (isinstance(usual, dict) and isinstance(systems, dict)):
            return values  # nothing to give, or invalid; the class of the invalid value reports it
        for kind, given in usual.items():
            check_reference("usual", kind, DECODINGS, "decoding")
            fields = DECODINGS[kind][1].model_fields
            for key, value in given.items() if isinstance(given, dict) else ():
                if key not in fields or key == "kind":
                    raise ValueError(
                        no_such("usual", key, [name for name in fields if name != "kind"], f"key of {kind}")
                    )
                try:
                    TypeAdapter[Any](Annotated[fields[key].annotation, fields[key]]).validate_python(value, strict=True)  # type: ignore[arg-type]
                except ValidationError as error:
                    said = error.errors(include_url=False)[0]["msg"]
                    raise ValueError(f"usual.{kind}.{key} = {short(value)}: {said[:1].lower()}{said[1:]}") from None

        def complete(system: Any) -> Any:
            decode = system.get("decode") if isinstance(system, dict) else None
            kind = decode.get("kind") if isinstance(decode, dict) else None
            given = usual.get(kind) if isinstance(kind, str) else None
            return (
                {**system, "decode": given | decode} if isinstance(given, dict) and isinstance(decode, dict) else system
            )

        return {**values, "systems": {key: complete(system) for key, system in systems.items()}}

    @cached_property
    def expanded(self) -> Systems:
        return expand(self.entries)

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

    def is_own(self, system: str) -> bool:
        """Whether a system of this name is shown the images that it captions, and not mismatched ones."""
        return system in self.systems and self.systems[system].images == "own"

    def captioning(self, dataset: str) -> dict[str, CaptionSystem]:
        """The systems that may caption a dataset, in the section's order."""
        listed = self.datasets[dataset].systems
        if listed is None:
            return self.systems
        keys = {name for key in listed for name in self.expanded.captioning.get(key, [key])}
        return {key: system for key, system in self.systems.items() if key in keys}

    def backbone_of(self, dataset: str, system: str | None = None) -> str:
        """The backbone of a dataset's runs, or of one system's runs there."""
        own = self.systems[system].backbone if system in self.systems else None
        return own or self.datasets[dataset].backbone or self.backbone

    def contests_of(self, own: Collection[str], external: Collection[str]) -> dict[str, Contest]:
        """The judge's contests between these systems and external models: all of a contest's systems must be among them, and its
        external models that are not are left out."""
        contests = {}
        for name, contest in self.judge.contests.items() if self.judge is not None else ():
            systems = [key for key in contest.systems if key in own or key in external]
            if len(systems) > 1 and all(key in systems or key in self.coca for key in contest.systems):
                contests[name] = contest.but(systems=systems)
        return contests

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if MOST_FREQUENT in self.systems:
            raise ValueError(f"systems.{MOST_FREQUENT}: this row is in every table; give the system another key")
        for name in self.coca:
            if name in self.systems or name == MOST_FREQUENT:
                raise ValueError(f"coca.{name}: a system is called so; give it another key")
        if self.judge is not None:
            labels = {name: contest.label for name, contest in self.judge.contests.items()}
            check_unique_labels("judge.contests", labels)
            if isinstance(self.judge.by, ByClipScore) and self.clip_score is None:
                raise ValueError("judge.by: clip_score needs a model; name one under clip_score")
        guided = [key for key, system in self.systems.items() if system.decode.is_guided]
        if guided and self.guide is None:
            raise ValueError(f"systems.{guided[0]}.decode.guide: names no model; name a CLIP run under guide")
        return self

    def misfits(self, params: Any) -> Iterator[str]:
        """What it asks that other sections of the ``params`` do not have: a line each, which begins with the key."""
        room = params.protocol.data.context_length - 1
        for name, tuned in self.finetunings.items():
            if tuned.canvas is not None and tuned.canvas > room:
                yield f"captions.finetunings.{name}.canvas = {tuned.canvas}: at most {room} tokens fit the context"
        for key, dataset in self.datasets.items():
            yield from self._finetuned(params, dataset, f"captions.datasets.{key}.tuned")
            for name, system in params.captioned.get(key, {}).items():
                yield from self._system(params, key, system, f"captions.systems.{name}")
        clips, seeds = [], params.training.seeds
        for key, clip in (("clip_score", self.clip_score), ("guide", self.guide)):
            if not isinstance(clip, RunClip):
                continue
            backbone = clip.backbone or self.backbone
            clips.append((clip.method, backbone, clip.of(seeds)))
            method, place = params.methods[clip.method], f"captions.{key}.method = {clip.method}"
            if not method.embeds_captions:
                yield f"{place}: its objective is {method.objective}, not CLIP's"
            if isinstance(params.training.backbones[backbone], FrozenBackbone):
                yield f"{place}: {backbone} has a frozen encoder, on which no CLIP is trained"
            if clip.of(seeds) not in seeds:
                given = ", ".join(map(str, seeds))
                yield f"captions.{key}.seed = {clip.seed}: not one of the scale's (pretrain.seeds: {given})"
        if len(clips) == 2 and clips[0] == clips[1]:
            said = "which would reward what it has chosen itself; give one of them another method, backbone or seed"
            yield f"captions.guide: is the run that CLIPScore is by, {said}"

    def _finetuned(self, params: Any, dataset: CaptionedImages, where: str) -> Iterator[str]:
        """A run keeps its vocabulary, so that of its pretraining must cover what it is finetuned on."""
        vocabulary = params.vocabulary_of(dataset.pretrained)
        for key, name in dataset.tuned.items():
            if name is None:
                continue
            corpus, listed = self.finetunings[name].corpus, params.data.vocabularies[vocabulary]
            if (other := params.vocabulary_of(corpus)) != vocabulary:
                pretrained = f"{dataset.pretrained}, on which the runs are pretrained, has {vocabulary}"
                said = f"{corpus} has the vocabulary {other}, and {pretrained}; a run keeps its vocabulary, so give both the same"
                yield f"{where}.{key}: {said}"
            elif listed != "full" and corpus not in listed:
                yield f"{where}.{key}: the vocabulary {vocabulary} does not cover {corpus}; add it to its list"

    def _system(self, params: Any, name: str, system: CaptionSystem, where: str) -> Iterator[str]:
        """A system that is shown on the dataset ``name``: its backbone, its finetuning and its decoding."""
        dataset, decode, backbones = self.datasets[name], system.decode, params.training.backbones
        method = params.methods[system.method]
        if system.backbone is not None and system.backbone not in backbones:
            yield no_such(f"{where}.backbone", system.backbone, backbones, "backbone")
        if system.tuned is not None and system.tuned not in dataset.tuned:
            available = ", ".join(dataset.tuned) or "none"
            yield f"{where}.tuned = {system.tuned}: datasets.{name}.tuned does not name it; it has {available}"
            return
        tuned = dataset.tuned_as(system)
        canvas = self.finetunings[tuned].canvas if tuned is not None else None
        if problem := method.refusal(system.method, decode, params.protocol.data.context_length):
            yield f"{where}.decode: {problem}"
        elif system.tuned is not None and not method.finetunes:
            yield f"{where}.tuned = {system.tuned}: {system.method} is not finetuned; leave this key out"
        elif canvas is not None and not isinstance(decode, Unmasking):
            yield f"{where}.tuned = {system.tuned}: it has a canvas, which {system.method} cannot learn"
        elif canvas is None and isinstance(decode, Unmasking) and decode.ends:
            yield f"{where}.decode.ends: needs a finetuning with a canvas, on which a model learns where to end"


class OfCaptions(WithClaims):
    """A table or figure of captions: of some systems on some datasets of the section ``captions``."""

    sections: ClassVar[tuple[str, ...]] = ("pretrain", "captions")

    @property
    def one_seed(self) -> bool:
        """Whether it shows the first seed alone, so that a system of this seed alone may be in it."""
        return False

    @abstractmethod
    def shown(self, captions: Captions) -> Iterator[tuple[str, str]]:
        """(dataset, system or external model) of every row, sweeps expanded; a name that does not exist comes as it is."""

    def rows_on(self, captions: Captions, dataset: str) -> dict[str, CaptionSystem]:
        """Its systems on a dataset, in the section's order."""
        keys = {key for name, key in self.shown(captions) if name == dataset}
        return {key: system for key, system in captions.captioning(dataset).items() if key in keys}

    def external_on(self, captions: Captions, dataset: str) -> dict[str, Coca]:
        """Its external models on a dataset."""
        keys = {key for name, key in self.shown(captions) if name == dataset}
        return {key: model for key, model in captions.coca.items() if key in keys and dataset in model.datasets}

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        captions, shown = params.captions, dict.fromkeys(self.shown(params.captions))
        datasets = dict.fromkeys(name for name, _ in shown)
        listed = f"{where}.datasets" if "datasets" in type(self).model_fields else f"{where}.dataset"
        systems = {**captions.systems, **captions.coca}
        names = dict.fromkeys(key for _, key in shown)
        yield from unknown(listed, datasets, captions.datasets, "dataset (captions.datasets)")
        yield from unknown(f"{where}.systems", names, systems, "system (captions.systems)")
        known = [name for name in datasets if name in captions.datasets]
        here = {name: {**self.rows_on(captions, name), **self.external_on(captions, name)} for name in known}
        yield from equal_labels(listed, {name: captions.datasets[name].label for name in known})
        for name in known:
            labels = {
                key: f"{one.label} · {one.decode.shown_length}" for key, one in self.rows_on(captions, name).items()
            }
            yield from equal_labels(f"{where}.systems", labels)
        for key in (key for key in names if key in systems):
            if known and not any(key in on for on in here.values()):
                said = f"name it under captions.datasets.{known[0]}.systems"
                yield f"{where}.systems: {key} does not caption {known[0]}; {said}"
            if key in captions.systems and captions.systems[key].first_seed and not self.one_seed:
                yield f"{where}.systems: {key} is of the first seed alone, and this shows all"

    def strangers(self, captions: Captions, where: str, sides: Iterable[str]) -> Iterator[str]:
        """A line for each of ``sides``, dataset/system, that the table does not show."""
        names = {name for name, _ in self.shown(captions)}
        known = [f"{name}/{key}" for name in captions.datasets if name in names for key in self.rows_on(captions, name)]
        for side in sides:
            name, _, key = side.partition("/")
            if name in names & captions.datasets.keys() and key in captions.systems.keys() - captions.captioning(name):
                yield f"{where}: {key} does not caption {name}; name it under captions.datasets.{name}.systems"
            else:
                yield from unknown(where, [side], known, "dataset/system of this table")
