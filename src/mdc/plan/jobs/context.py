"""The base class of a plan, with what all its parts need: the parameters, the construction of a job, and jobs that are inputs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_args

from pydantic import ValidationError

from mdc.plan.config.captions import Finetune
from mdc.plan.config.data import origin_of
from mdc.plan.config.kinds.encoders import RunTower
from mdc.plan.config.kinds.sources import PairsCorpus
from mdc.plan.config.method import Method
from mdc.plan.config.params import Params
from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.probe_tables import ProbeTable
from mdc.plan.config.problems import first_problem
from mdc.plan.config.scale import Scale
from mdc.plan.config.types import Parameters, WithClaims
from mdc.plan.fingerprint import fingerprint
from mdc.plan.jobs.accepted import Accepted, Edit
from mdc.plan.jobs.ids import Frozen, Run, Snapshot, Untrained
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import PretrainJob, ProbeJob, SelectLrJob
from mdc.plan.jobs.shown import Labelled, Statistics
from mdc.plan.records import UserError
from mdc.plan.registry.datasets import REGISTRY
from mdc.plan.registry.entry import decisive
from mdc.plan.verbs import VERBS

Encoder = Run | Snapshot | Untrained | Frozen


J = TypeVar("J", bound=Job)
P = ParamSpec("P")
Made = TypeVar("Made")


def once(make: Callable[Concatenate[Any, P], Made]) -> Callable[Concatenate[Any, P], Made]:
    """Cache ``make`` by plan and arguments: tables need the same jobs many times."""

    @wraps(make)
    def cached(plan: Context, /, *args: P.args, **kwargs: P.kwargs) -> Made:
        key = (make, *args, *kwargs.items())
        if key not in plan.cache:
            plan.cache[key] = make(plan, *args, **kwargs)
        return cast(Made, plan.cache[key])

    return cached


def compared(contrasts: list[list[str]], primary: list[list[str]]) -> dict[str, list[list[str]]]:
    """The comparisons of a table; claims that are not among ``contrasts`` are shown after them."""
    return {"contrasts": contrasts + [pair for pair in primary if pair not in contrasts], "primary": primary}


class Context(ABC):
    """The parameters of a scale, from which jobs are made. ``accepted``: edits that change no result."""

    def __init__(self, params: Params, accepted: Accepted | None = None) -> None:
        self.params = params
        self.scale: Scale = params
        #: the scale's file, named at the beginning of messages
        self.file = f"scales/{params.scale}.yaml"
        self.accepted = accepted or Accepted()
        #: job → the accepted edits that led to its code, if there are any
        self.edits: dict[str, list[Edit]] = {}
        #: job → the fingerprint of its present code
        self.code: dict[str, str] = {}
        #: every job made so far, by its name
        self.made: dict[str, Any] = {}
        #: the results of functions under :func:`once`
        self.cache: dict[tuple[Any, ...], Any] = {}

    # --- jobs that others are made from: a run may need an encoder, and an encoder a run --------------------------------

    @abstractmethod
    def corpus(self, name: str) -> Job:
        """The job of a corpus."""

    @abstractmethod
    def pretrain(self, run: Run) -> PretrainJob:
        """The job of a run, made once."""

    @abstractmethod
    def select_lr(self, run: Run) -> SelectLrJob | None:
        """The job that chooses a run's learning rate; None where its recipe has one."""

    @abstractmethod
    def probe(self, encoder: Encoder, head: str) -> ProbeJob:
        """The job of an encoder's probes by a head, made once."""

    @property
    @abstractmethod
    def runs(self) -> list[Run]:
        """Every run that the tables and figures need, each once, in their order."""

    # --- what all jobs are made with ----------------------------------------------------------------------------------------

    def make(self, kind: type[J], job: str, inputs: list[str], modules: Iterable[str] = (), /, **values: Any) -> J:
        """A typed job, which counts among the plan's. ``modules``: what it loads by name, besides its verb's own."""
        (verb,) = get_args(kind.model_fields["verb"].annotation)
        head = self.head(verb, job, inputs, modules)
        try:
            made = kind(**head, **values)
        except ValidationError as error:
            raise UserError(f"{self.file}: {job}: {first_problem(error, {**head, **values})}") from None
        if self.made.setdefault(job, made) != made:
            raise UserError(f"{self.file}: {job}: two different jobs have this name; rename an entry of the scale")
        return cast(J, self.made[job])

    def statistics(self, table: WithClaims) -> Statistics:
        """The statistics of a table or figure: the protocol's, and the order of its claims."""
        return Statistics(**dict(self.params.protocol.statistics), order=table.order)

    def backbone(self, name: str) -> Labelled:
        """A backbone with its label."""
        return Labelled(key=name, label=self.scale.training.backbones[name].label)

    def labels(self, run: Run, method: str = "") -> dict[str, Any]:
        """A row's labels of a run: corpus, backbone, and method, which may have another label there."""
        source = self.scale.data.corpora[self.scale.corpus_of(run.corpus)].source
        listed = source.pairs if isinstance(source, PairsCorpus) else None
        return {
            "corpus": Labelled(key=run.corpus, label=self.scale.label_of(run.corpus), listed=listed),
            "backbone": self.backbone(run.backbone),
            "method": Labelled(key=run.method, label=method or self.params.methods[run.method].label),
            "lr": self.recipe(run.pretrained).lr or "selected",
        }

    def head(self, verb: str, job: str, inputs: list[str], modules: Iterable[str] = ()) -> dict[str, Any]:
        """The keys of every job."""
        code = self.code[job] = fingerprint(*modules, VERBS[verb].module)
        if edits := self.accepted.behind(code):
            self.edits[job] = edits
        return {
            "job": job,
            "verb": verb,
            "scale": self.params.scale,
            "fingerprint": self.accepted.oldest(code),
            "inputs": inputs,
        }

    def runs_of(self, table: Parameters) -> list[Run]:
        """The runs of one table, by backbone, corpus, method and seed."""
        return [
            Run(corpus, backbone, method, seed)
            for backbone, corpora in table.trained.items()
            for corpus, methods in corpora.items()
            for method in methods
            for seed in self.scale.training.seeds
        ]

    def encoders_of(self, table: ProbeTable) -> list[Encoder]:
        """The encoders in a table of probes: its runs (in a figure of convergence each after its snapshots), their untrained
        controls, then external encoders."""
        runs, encoders = self.runs_of(table), list[Encoder]()
        for run in runs:
            encoders += [Snapshot(run, share) for share in table.snapshots(self.recipe(run))]
            encoders.append(run)
        return [*encoders, *dict.fromkeys(self.control(run) for run in runs), *map(Frozen, table.encoders)]

    def run_of(self, entry: RunTower) -> Run:
        """The run whose encoder an entry is."""
        seed = self.scale.training.seeds[0] if entry.seed is None else entry.seed
        return Run(entry.corpus, entry.backbone, entry.method, seed)

    def control(self, run: Run) -> Untrained:
        """The untrained control of a run."""
        return Untrained(run.backbone, self.params.methods[run.method].pooling, run.seed)

    def recipe(self, run: Run) -> Recipe:
        """The scale's recipe, with the matching overrides, and the method's batch factor and steps; for a finetuned run the
        finetuning's own recipe."""
        if run.finetune:
            return self.finetuning(run).recipe
        pretrain = self.scale.training
        values = pretrain.recipe.model_dump()
        if run.lr:
            values["lr"] = run.lr
        if (variant := pretrain.varied.get(run.corpus)) is not None:
            values[variant.key] = variant.value
        for override in pretrain.overrides:
            if override.when.matches(run.corpus, run.backbone, run.method):
                values |= override.recipe
        method = self.params.methods[run.method]
        values["batch_size"] *= method.batch_factor
        if method.steps is not None:
            if values["epochs"] % 2:
                raise UserError(
                    f"{self.file}: run {run.id}: {run.method} has half the steps, and epochs = {values['epochs']}; allowed: an "
                    "even number"
                )
            values["epochs"] //= 2
        try:
            return Recipe.model_validate(values)
        except ValidationError as error:
            raise UserError(f"{self.file}: run {run.id}: {first_problem(error, values)}") from None

    def method(self, run: Run) -> Method:
        """The method of a run as its job has it, with the matching overrides. Labels and the like decide no result, and pooling
        is the probe's choice."""
        method = self.params.methods[run.method]
        values: dict[str, Any] = {"label": "", "pooling": "patch_mean", "ranked": True, "batch_factor": 1}
        values |= {"steps": None, "style": None}
        for override in self.scale.training.overrides:
            if override.when.matches(run.corpus, run.backbone, run.method):
                if other := [key for key in override.method if key not in method.by_run]:
                    said = f"a key that {run.method} does not have (objective {method.objective}); leave it out of this override"
                    raise UserError(f"{self.file}: run {run.id}: pretrain.overrides: {other[0]}: {said}")
                values |= override.method
        whole = method.model_dump(by_alias=True, context="complete") | values
        try:
            return type(method).model_validate(whole)
        except ValidationError as error:
            raise UserError(f"{self.file}: run {run.id}: {first_problem(error, whole)}") from None

    def finetuning(self, run: Run) -> Finetune:
        """The finetuning of a finetuned run."""
        assert self.scale.captions is not None  # only captioners are finetuned
        return self.scale.captions.finetunings[run.finetune]

    def corpus_of(self, run: Run) -> str:
        """The corpus that a run is trained on last."""
        return self.finetuning(run).corpus if run.finetune else self.scale.corpus_of(run.corpus)

    def obtaining(self, name: str) -> dict[str, Any]:
        """The values of a job that obtains a dataset."""
        data = self.scale.data
        dataset = data.datasets[name]
        origin = origin_of(name, dataset)
        shaped = data.download if origin == "urls" else None
        return {
            "name": name,
            "dataset": dataset.model_copy(update={"origin": origin}),
            "download": shaped.model_dump(mode="json", exclude={"runtime"}) if shaped is not None else None,
            "entry": decisive(REGISTRY[name]) if name in REGISTRY else None,
        }

    def resolved_source(self, source: Any) -> Any:
        """A source with the path of its dataset, and how that was obtained."""
        datasets, more = self.scale.data.datasets, dict[str, Any]()
        if getattr(source, "dataset", None) is not None:
            dataset = datasets[source.dataset]
            more["path"] = dataset.path
            if "origin" in type(source).model_fields:
                more["origin"] = origin_of(source.dataset, dataset)
        if getattr(source, "images_from", None) is not None:
            more["images"] = str(Path(datasets[source.images_from].path, source.images))
        return source.model_copy(update=more)
