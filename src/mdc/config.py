"""The parameters of the pipeline: typed, validated, resolved.

``params.yaml`` is the one place where a hyper-parameter lives. This module says what it may hold. Anything else (an
unknown key, a wrong type, ``1e-4`` read as text, a backbone that does not exist, a reversed range) ends in one line
that names the key, the value and what is allowed, before any job starts. It imports neither torch nor OpenCLIP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mdc.records import UserError


def _each_once(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError(f"{names} names one twice")
    return names


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Names = Annotated[list[Name], Field(min_length=1), AfterValidator(_each_once)]
Positive = Annotated[int, Field(gt=0, lt=2**63)]  # what PyTorch and NumPy take
NonNegative = Annotated[int, Field(ge=0, lt=2**63)]
Threads = Annotated[int, Field(gt=0, le=4096)]
Share = Annotated[float, Field(ge=0, le=1)]
HeldOut = Annotated[float, Field(ge=0, lt=1)]
Column = Annotated[str, Field(min_length=1)] | NonNegative  # by name or by number


def _usable_path(path: str) -> str:
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is no path")
    return path


DataPath = Annotated[str, AfterValidator(_usable_path)]  # relative to MDC_DATA, or absolute


class Strict(BaseModel):
    """No unknown keys, no silent conversions (text is never a number), nothing mutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


# --- data ------------------------------------------------------------------------------------------------------------


class ScenesCorpus(Strict):
    """The embedded world, captioned in one of two styles."""

    kind: Literal["scenes"]
    style: Literal["alt", "dense"]
    train: Positive
    val: Positive
    seed: NonNegative
    pixels: Annotated[int, Field(ge=16, le=512)]


class ParquetCorpus(Strict):
    """Image–caption pairs in a parquet file or a folder of them; ``path`` is relative to MDC_DATA or absolute."""

    kind: Literal["parquet"]
    path: DataPath
    image_column: str = "image"
    caption_column: str | None = None
    split_column: str | None = "split"
    splits: dict[Literal["train", "val", "test"], str] = {"train": "train", "val": "val"}
    key_column: str | None = None
    caption_mode: Literal["each", "join", "cut"] = "each"
    max_pieces: Positive | None = None

    @model_validator(mode="after")
    def _pieces(self) -> Self:
        _has(self.splits, "train")
        _cut_has_length(self.caption_mode, self.max_pieces)
        return self


class TableCorpus(Strict):
    """A folder of images and a table that captions them: CSV, TSV (no quotation) or JSON lines, in UTF-8.

    Columns go by name; ``header: false`` says that a CSV or TSV has none, and columns then go by number from 0. Several
    rows of one image, and several caption columns, are its several captions. ``format`` follows from the name's end
    (.csv, .tsv, .tab, .jsonl, .ndjson) unless given. Image names are relative to ``images`` (default: the table's own
    folder); one that leads outside of it is left out. Without a split column the share ``val_share`` of the images,
    chosen by a hash of their names, is held out.
    """

    kind: Literal["caption_table"]
    path: DataPath
    images: DataPath | None = None
    format: Literal["csv", "tsv", "jsonl"] | None = None
    header: bool = True
    image_column: Column = "image"
    caption_column: Column | Annotated[list[Column], Field(min_length=1)] = "caption"
    split_column: Column | None = None
    splits: dict[Literal["train", "val", "test"], str] = {"train": "train", "val": "val"}
    val_share: HeldOut = 0.0
    key_column: Column | None = None
    caption_mode: Literal["each", "join", "cut"] = "each"
    max_pieces: Positive | None = None

    @model_validator(mode="after")
    def _columns(self) -> Self:
        _has(self.splits, "train")
        _cut_has_length(self.caption_mode, self.max_pieces)
        captions = self.caption_column if isinstance(self.caption_column, list) else [self.caption_column]
        for column in (self.image_column, *captions, self.split_column, self.key_column):
            if column is not None and isinstance(column, int) == self.header:
                raise ValueError(f"column {column!r}: a name with header: true, a number from 0 with header: false")
        if self.val_share and self.split_column is not None:
            raise ValueError("val_share holds images out where no split_column does; give one of them")
        return self


class WebdatasetCorpus(Strict):
    """Tar shards as img2dataset writes them: a tar, or a folder of tars (searched through).

    The caption is the sample's .txt, or the field ``caption_field`` of its .json. ``splits`` names a folder of shards
    under ``path`` for each split; without it, the share ``val_share`` of the samples, chosen by a hash of their keys,
    is held out.
    """

    kind: Literal["webdataset"]
    path: DataPath
    caption_field: str | None = None
    splits: dict[Literal["train", "val", "test"], DataPath] | None = None
    val_share: HeldOut = 0.0
    caption_mode: Literal["each", "join", "cut"] = "each"
    max_pieces: Positive | None = None

    @model_validator(mode="after")
    def _splits(self) -> Self:
        _cut_has_length(self.caption_mode, self.max_pieces)
        if self.splits is not None:
            _has(self.splits, "train")
            if self.val_share:
                raise ValueError("val_share holds samples out where no splits do; give one of them")
        return self


class ScenesProbe(Strict):
    """A question about the embedded world with one right answer an image."""

    kind: Literal["scenes"]
    task: Literal["shape", "colour", "relation", "count", "background"]
    train: Positive
    test: Positive
    seed: NonNegative
    pixels: Annotated[int, Field(ge=16, le=512)]


class DigitsProbe(Strict):
    """scikit-learn's bundled handwritten digits: a real transfer set that needs no download."""

    kind: Literal["digits"]
    seed: NonNegative = 0


class ParquetProbe(Strict):
    """Labelled images in a parquet file or a folder of them."""

    kind: Literal["parquet"]
    path: DataPath
    image_column: str = "image"
    label_column: str = "label"
    class_name_column: str | None = None
    split_column: str | None = "split"
    splits: dict[Literal["train", "test"], str] = {"train": "train", "test": "test"}
    key_column: str | None = None

    @model_validator(mode="after")
    def _splits(self) -> Self:
        _has(self.splits, "train", "test")
        return self


class FolderProbe(Strict):
    """A folder of images for each class: ``<path>/<split>/<class>/<image>``; both splits have the same classes."""

    kind: Literal["class_folder"]
    path: DataPath
    splits: dict[Literal["train", "test"], DataPath] = {"train": "train", "test": "test"}

    @model_validator(mode="after")
    def _splits(self) -> Self:
        _has(self.splits, "train", "test")
        return self


class NounsProbe(Strict):
    """Presence of the commonest caption nouns: a multi-label probe made from any captioned parquet file."""

    kind: Literal["caption_nouns"]
    path: DataPath
    count: Positive = 60
    image_column: str = "image"
    caption_column: str | None = None
    split_column: str = "split"
    splits: dict[Literal["vocabulary", "train", "test"], str] = {"vocabulary": "train", "train": "dev", "test": "test"}
    key_column: str | None = None

    @model_validator(mode="after")
    def _splits(self) -> Self:
        _has(self.splits, "vocabulary", "train", "test")
        return self


CorpusSource = Annotated[ScenesCorpus | ParquetCorpus | TableCorpus | WebdatasetCorpus, Field(discriminator="kind")]
ProbeSource = Annotated[
    ScenesProbe | DigitsProbe | ParquetProbe | NounsProbe | FolderProbe, Field(discriminator="kind")
]


class Corpus(Strict):
    label: str
    source: CorpusSource


class ProbeSet(Strict):
    label: str
    source: ProbeSource


class Data(Strict):
    vocabulary: Literal["full", "corpus"]
    samples_per_shard: Positive
    max_skipped: Share
    corpora: dict[Name, Corpus]
    probes: dict[Name, ProbeSet]
    primary_probe: Name

    @model_validator(mode="after")
    def _primary(self) -> Self:
        _known("primary_probe", self.primary_probe, self.probes, "probe")
        if "untrained" in self.corpora:
            raise ValueError("corpora.untrained: this name is taken by the untrained controls; choose another")
        return self


# --- pretraining -----------------------------------------------------------------------------------------------------


class Decoder(Strict):
    """Text decoder (MDC, ARC) and, without cross-attention, CLIP's text encoder."""

    width: Positive
    layers: Positive
    heads: Positive

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        return self


class Backbone(Strict):
    """A vision transformer and the decoder that goes with it (paper, section 4.1)."""

    label: str
    image_size: Positive
    patch_size: Positive
    width: Positive
    layers: Positive
    heads: Positive
    embed_dim: Positive
    decoder: Decoder

    @model_validator(mode="after")
    def _shape(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} must be a multiple of patch_size {self.patch_size}")
        return self


class Method(Strict):
    """What is learnt from a caption. MDC, its ablations and BERT-r are one masked objective with different values."""

    label: str
    objective: Literal["masked", "autoregressive", "contrastive"]
    pooling: Literal["patch_mean", "cls"]
    t_range: tuple[Share, Share] | None = None
    weight: Literal["inverse_t", "none"] | None = None
    normaliser: Literal["valid_tokens", "masked_tokens"] | None = None
    batch_factor: Positive = 1
    ranked: bool = True

    @model_validator(mode="before")
    @classmethod
    def _list_is_a_pair(cls, value: Any) -> Any:
        # YAML has lists only; strict mode would refuse one where a tuple is declared
        if isinstance(value, dict) and isinstance(value.get("t_range"), list):
            value = {**value, "t_range": tuple(value["t_range"])}
        return value

    @model_validator(mode="after")
    def _masked(self) -> Self:
        masked_only = {"t_range": self.t_range, "weight": self.weight, "normaliser": self.normaliser}
        for key, value in masked_only.items():
            if (self.objective == "masked") != (value is not None):
                need = "needs" if value is None else "does not take"
                raise ValueError(f"objective {self.objective} {need} {key}")
        if self.t_range is not None:
            low, high = self.t_range
            if low > high:
                raise ValueError(f"t_range [{low}, {high}] is reversed; write [low, high] with 0 <= low <= high <= 1")
            if high == 0:
                raise ValueError("t_range [0, 0] masks nothing; its upper end must be above 0")
        return self


class Recipe(Strict):
    """Optimisation of a run; overrides may change any key for some runs."""

    epochs: Positive
    batch_size: Positive
    accumulation: Positive
    processes: Positive
    lr: Annotated[float, Field(gt=0, lt=1)]
    warmup_steps: NonNegative
    weight_decay: Annotated[float, Field(ge=0, lt=1)]
    beta1: Annotated[float, Field(ge=0, lt=1)]
    beta2: Annotated[float, Field(ge=0, lt=1)]
    clip_norm: Annotated[float, Field(gt=0)] | None
    precision: Literal["fp32", "bf16"]
    compile: bool
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
    validate_every: Positive

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if self.batch_size % (self.accumulation * self.processes):
            raise ValueError(
                f"batch_size {self.batch_size} must be a multiple of accumulation times processes "
                f"({self.accumulation} · {self.processes})"
            )
        return self


class Runtime(Strict):
    """What changes how a run proceeds, never what it produces; changing it reruns nothing."""

    workers: NonNegative
    log_every: Positive
    checkpoint_every: Positive


class When(Strict):
    """Which runs an override is for: every key that is given must match."""

    corpus: list[Name] | None = None
    backbone: list[Name] | None = None
    method: list[Name] | None = None

    def matches(self, corpus: str, backbone: str, method: str) -> bool:
        pairs = ((self.corpus, corpus), (self.backbone, backbone), (self.method, method))
        return all(allowed is None or value in allowed for allowed, value in pairs)


class Override(Strict):
    when: When
    set: dict[str, Any]


class Pretrain(Strict):
    backbones: dict[Name, Backbone]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    recipe: Recipe
    runtime: Runtime
    overrides: list[Override] = Field(default_factory=list)

    @model_validator(mode="after")
    def _overrides(self) -> Self:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} repeat one")
        for number, override in enumerate(self.overrides):
            for name in override.when.backbone or []:
                _known(f"overrides[{number}].when.backbone", name, self.backbones, "backbone")
            try:
                Recipe.model_validate({**self.recipe.model_dump(), **override.set})
            except ValidationError as error:
                raise ValueError(f"overrides[{number}].set: {first_problem(error)}") from None
        return self


# --- evaluation and artefacts ----------------------------------------------------------------------------------------


class Probe(Strict):
    """Where and how features are computed, and CLIP-benchmark's recipe (paper, appendix B)."""

    lr: Annotated[float, Field(gt=0)]
    epochs: Positive
    batch_size: Positive
    seed: NonNegative
    feature_batch: Positive
    precision: Literal["fp32", "bf16"]
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
    bootstrap: Annotated[int, Field(ge=100)]


class Table1(Strict):
    corpora: Annotated[dict[Name, Names], Field(min_length=1)]
    backbones: Names
    probes: Names


class Tables(Strict):
    table1: Table1


class Scale(Strict):
    label: str
    data: Data
    pretrain: Pretrain
    probe: Probe
    tables: Tables

    @model_validator(mode="after")
    def _names(self) -> Self:
        table = self.tables.table1
        for name in table.corpora:
            _known("tables.table1.corpora", name, self.data.corpora, "corpus")
        for name in table.backbones:
            _known("tables.table1.backbones", name, self.pretrain.backbones, "backbone")
        for name in table.probes:
            _known("tables.table1.probes", name, self.data.probes, "probe")
        for name, corpus in self.data.corpora.items():
            batch = self.pretrain.recipe.batch_size
            if isinstance(corpus.source, ScenesCorpus) and corpus.source.train < batch:
                raise ValueError(
                    f"data.corpora.{name}.source.train = {corpus.source.train}: fewer than one batch of {batch}"
                )
        return self


class ProtocolData(Strict):
    context_length: Annotated[int, Field(ge=3)]
    sot: Literal["visible"]
    eot: Literal["supervised"]
    several_captions: Literal["one_a_presentation"]


class ProtocolPretrain(Strict):
    least_t: Annotated[float, Field(gt=0, lt=1)]
    t_draw: Literal["stratified", "independent"]
    adam_eps: Annotated[float, Field(gt=0)]
    decay: Literal["matrices_only"]
    final_lr: Annotated[float, Field(ge=0)]
    temperature: Annotated[float, Field(gt=0)]
    max_logit_scale: Annotated[float, Field(gt=1)]
    clip_text_attention: Literal["causal", "bidirectional"]
    mask_duplicates_over: Share
    arc_normaliser: Literal["valid_tokens"]
    interpolation: Literal["bicubic"]
    mean_and_std: Literal["openai"]
    crop_scale: tuple[Share, Share]
    crop_ratio: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]
    flips: Literal[False]

    @model_validator(mode="before")
    @classmethod
    def _lists_are_pairs(cls, value: Any) -> Any:
        if isinstance(value, dict):
            pairs = {k: tuple(v) for k, v in value.items() if k.startswith("crop_") and isinstance(v, list)}
            value = {**value, **pairs}
        return value

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        for key in ("crop_scale", "crop_ratio"):
            low, high = getattr(self, key)
            if low > high or low <= 0:
                raise ValueError(f"{key} [{low}, {high}] must be [low, high] with 0 < low <= high")
        return self


class ProtocolProbe(Strict):
    normalise: bool
    weight_decay: Annotated[float, Field(ge=0)]
    validation_split: Literal["none"]


class Protocol(Strict):
    data: ProtocolData
    pretrain: ProtocolPretrain
    probe: ProtocolProbe


class Params(Strict):
    scale: Name
    protocol: Protocol
    methods: dict[Name, Method]
    scales: dict[Name, Scale]

    @model_validator(mode="after")
    def _cross(self) -> Self:
        _known("scale", self.scale, self.scales, "scale")
        for scale_name, scale in self.scales.items():
            table = scale.tables.table1
            for corpus, methods in table.corpora.items():
                for method in methods:
                    _known(f"scales.{scale_name}.tables.table1.corpora.{corpus}", method, self.methods, "method")
            for number, override in enumerate(scale.pretrain.overrides):
                where = f"scales.{scale_name}.pretrain.overrides[{number}].when"
                for name in override.when.method or []:
                    _known(f"{where}.method", name, self.methods, "method")
                for name in override.when.corpus or []:
                    _known(f"{where}.corpus", name, scale.data.corpora, "corpus")
        return self

    def current(self) -> Scale:
        return self.scales[self.scale]


# --- reading and complaining -----------------------------------------------------------------------------------------


def _known(where: str, name: str, allowed: dict[str, Any], what: str) -> None:
    if name not in allowed:
        raise ValueError(f"{where}: no {what} is named '{name}'; allowed: {', '.join(allowed)}")


def _cut_has_length(mode: str, max_pieces: int | None) -> None:
    if (mode == "cut") != (max_pieces is not None):
        raise ValueError("max_pieces goes with caption_mode: cut, and only with it")


def _has(splits: Mapping[Any, str], *needed: str) -> None:
    missing = [name for name in needed if name not in splits]
    if missing:
        raise ValueError(f"splits: {', '.join(missing)} is missing; needed: {', '.join(needed)}")


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; we refuse both."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str | int | float | bool | None) and key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice", key_node.start_mark
                )
            if isinstance(key, str | int | float | bool | None):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


_MOST_NODES = 100_000  # of a parameter file with its aliases written out; ours has some six hundred


def _refuse_bombs(node: yaml.Node | None) -> None:
    """A few aliases of aliases can stand for billions of values, and an alias inside itself for endlessly many."""
    sizes: dict[int, int | None] = {}

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            known = sizes[id(node)]
            if known is None:
                raise yaml.YAMLError("an alias stands inside of what it names")
            return known
        sizes[id(node)] = None
        inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        total = 1 + (0 if isinstance(node, yaml.ScalarNode) else sum(map(size, inner)))
        if total > _MOST_NODES:
            raise yaml.YAMLError(f"more than {_MOST_NODES} values with all aliases written out")
        sizes[id(node)] = total
        return total

    if node is not None:
        size(node)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a parameter file. Raises UserError if it is missing, not YAML, or names a key twice."""
    try:
        loader = _UniqueKeys(Path(path).read_text(encoding="utf-8"))
        node = loader.get_single_node()
        _refuse_bombs(node)
        value = None if node is None else loader.construct_document(node)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except RecursionError:
        raise UserError(f"{path}: not valid YAML: nested too deeply") from None
    except Exception as error:  # besides its own, PyYAML lets many kinds through on odd tags and numbers
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no mapping of keys to values")
    return value


# the tags of the discriminated unions above
_KINDS = ("scenes", "parquet", "caption_table", "webdataset", "digits", "caption_nouns", "class_folder")
_NUMBER_TEXT = re.compile(r"^[+-]?[0-9.]+[eE][+-]?[0-9]+$")


def first_problem(error: ValidationError) -> str:
    """The first problem of a validation as ``key = value: what is allowed``."""
    problem = error.errors(include_url=False)[0]
    # pydantic adds the tag of a discriminated union to the path; it is no key of the file
    steps: list[str] = []
    for step in problem["loc"]:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif step in _KINDS and steps and steps[-1] == ".source":
            continue
        elif step != "[key]":
            steps.append(f".{step}")
    where = _middle_left_out("".join(steps).lstrip("."))
    value = problem["input"]
    message = _middle_left_out(problem["msg"].removeprefix("Value error, "))
    if problem["type"] == "missing":
        return f"{where}: this key is missing"
    if problem["type"] == "extra_forbidden":
        return f"{where} = {_short(value)}: no such key is known here"
    if problem["type"] == "value_error":
        return f"{where}: {message}" if where else message
    hint = ""
    if isinstance(value, str) and _NUMBER_TEXT.match(value):
        hint = " (YAML reads this as text: write it with a point, as 1.0e-4)"
    return f"{where} = {_short(value)}: {message[0].lower()}{message[1:]}{hint}"


def _middle_left_out(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:250]} … {text[-250:]}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a nest of thousands of lists
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 60 else text[:57] + "..."


def validate(values: dict[str, Any], source: str = "params.yaml") -> Params:
    """Check a whole parameter tree.

    Raises UserError with one line (key, value, what is allowed) for the first problem, and how many more there are.
    """
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        more = error.error_count() - 1
        also = f" (and {more} more)" if more else ""
        raise UserError(f"{source}: {first_problem(error)}{also}") from None


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    """Read and check a parameter file; ``scale`` replaces the file's own choice."""
    values = read_yaml(path)
    if scale is not None:
        values["scale"] = scale
    return validate(values, str(path))
