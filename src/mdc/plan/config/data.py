"""The data of a scale: its datasets, and the sets that are built from them as shards."""

from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from mdc.plan.config.kinds.known import AnyChoice, AnyCorpus, AnyProbe
from mdc.plan.config.kinds.sources import CaptionList, PairsCorpus
from mdc.plan.config.problems import short
from mdc.plan.config.references import ProbeName, Ref, VocabularyName
from mdc.plan.config.types import (
    Column,
    DataPath,
    Name,
    Names,
    Network,
    NonNegative,
    Positive,
    Share,
    SomeUnique,
    Strict,
    Threads,
    check_reference,
)
from mdc.plan.registry.datasets import REGISTRY


class Corpus(Strict):
    """Captioned images. ``vocabulary``: a key of ``data.vocabularies`` for models trained on it; by default the first."""

    label: str
    source: AnyCorpus
    vocabulary: VocabularyName | None = None


def _has_class(template: str) -> str:
    if "{class}" not in template:
        raise ValueError(f"{short(template)} lacks {{class}}, in whose place a class's name is put")
    return template


#: open_clip's 80, its seven, or one's own
Templates = Literal["open_clip", "open_clip_simple"] | SomeUnique[Annotated[str, AfterValidator(_has_class)]]


class ClassCaptions(Strict):
    """The captions of a labelled set's classes, for zero-shot classification.

    ``templates``: by default "a photo of a {class}", in the built-in world the grammar's own phrase; ``open_clip``: its 80;
    ``open_clip_simple``: its seven.
    ``names``: class number, from 0 → its name in captions, if it is not the set's own.
    """

    templates: Templates | None = None
    names: dict[Annotated[str, Field(pattern=r"^\d+$")], str] = Field(default_factory=dict)


class ProbeSet(Strict):
    """Labelled images. ``note``: a sentence that is shown below the tables that have this set."""

    label: str
    note: str = ""
    source: AnyProbe
    class_captions: ClassCaptions = Field(default=ClassCaptions())


class ChoiceSet(Strict):
    """Images with one right caption among several."""

    label: str
    source: AnyChoice


class TextSet(Strict):
    """Captions without images, for Figure 3."""

    label: str
    source: CaptionList


class UrlList(Strict):
    """A list of image URLs and captions: a file under MDC_DATA or a folder of them, and its columns; or another ``revision``
    (commit, branch or tag) of the registry's list on the hub.

    Keys that are left out have the registry's values if it knows the list. Otherwise the format follows from the file
    name's ending, there is a header, and the columns are ``url`` and ``caption``. A subset is drawn by the
    URLs. ``hash_column``: the sha256 of each image; downloads
    that differ are counted, and kept.
    """

    path: DataPath | None = None
    revision: str | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet"] | None = None
    header: bool | None = None
    url_column: Column | None = None
    caption_column: Column | None = None
    key_column: Column | None = None
    hash_column: Column | None = None

    @model_validator(mode="after")
    def _path_or_revision(self) -> Self:
        if self.path is None and self.revision is None:
            raise ValueError("path: this key is missing; name your list, or a revision of the registry's list")
        if self.revision is not None and any(value is not None for key, value in self if key != "revision"):
            raise ValueError("revision: goes with no other key; it is of the registry's list, whose columns are known")
        return self


class Subset(Strict):
    """A random subset of ``pairs`` pairs of a list, by a hash of (seed, URL), so that smaller subsets are nested in larger
    ones."""

    pairs: Positive
    seed: NonNegative = 0


class HubMirror(Strict):
    """A repository of the Hugging Face hub, its revision and files; omitted keys have the registry's values. The commit of a
    branch or tag is looked up once and recorded."""

    repo: str | None = None
    revision: str | None = None
    patterns: list[str] | None = None


class Dataset(Strict):
    """The folder of a dataset and how it is obtained. mdc.plan.registry describes it (see ``mdc data list``).

    ``from: urls``: every image of a list by its URL. ``mirror``: ready shards from a repository of the Hugging Face hub.
    ``files``: its own archives, or the user's copy of them. The default is the registry's first way.
    """

    path: DataPath
    origin: Annotated[Literal["urls", "mirror", "files"] | None, Field(alias="from")] = None
    list: UrlList | None = None
    subset: Subset | None = None
    mirror: HubMirror | None = None
    parts: Names | None = None  # parts of its files to obtain; None: all


class Download(Strict):
    """How images are downloaded from their URLs and stored."""

    image_size: Positive  # pixels of the shorter side; larger images are resized
    rows_per_shard: Positive
    max_bytes: Positive
    min_image_size: NonNegative
    max_pixels: Annotated[int, Field(gt=0, le=89_478_485)]  # the limit of mdc.data.formats.images
    max_aspect: Annotated[float, Field(ge=1, le=200)]  # … and this one
    quality: Annotated[int, Field(ge=1, le=100)]
    respect_robots: bool  # leave out images whose X-Robots-Tag forbids their use
    runtime: "DownloadRuntime"


class DataRuntime(Strict):
    """How corpora in parts (kinds pairs and webdataset, parquet with ``sharded``) are converted to shards.

    ``processes`` that share the parts; their number changes no byte of a shard.
    """

    processes: Threads = 1


class DownloadRuntime(Strict):
    """How a download proceeds. A change downloads nothing again. ``jobs``: number of jobs that share a list.

    ``distributor``: the workers that download a job's shards: processes of its machine, or those of Spark or Ray (img2dataset's
    distributors; they need the data folder at the same path).
    """

    jobs: Positive = 1
    distributor: Literal["local", "pyspark", "ray"] = "local"
    processes: Threads
    threads: Threads  # of each process; they wait for the network
    timeout: Annotated[float, Field(gt=0)]  # seconds without a byte
    deadline: Annotated[float, Field(gt=0)]  # seconds for one whole transfer
    retries: NonNegative
    allow_addresses: list[Network]  # private networks that are allowed nevertheless
    use_proxy: bool  # the proxy that the environment names


def _full_or_corpora(value: Any) -> Any:
    """Refuse anything else with one message; a union of types would give one per type."""
    names = value if isinstance(value, list) else []
    each_once = bool(names) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    if value != "full" and not each_once:
        raise ValueError(f"{short(value)} is no vocabulary; allowed: full, or a list of corpora, each once")
    return value


Vocabulary = Annotated[
    Literal["full"] | list[Annotated[str, Ref("data.corpora|data.choices", "corpus or choice set")]],
    BeforeValidator(_full_or_corpora),
]


class Data(Strict):
    """``vocabularies``: each is ``full``, all of CLIP's BPE tokens, or a list of the corpora and choice sets whose tokens it has.

    They are needed only for corpora that a model is trained on. ``primary_probe``: the probe in ImageNet-1k's role; the primary
    comparisons of a table without an average use it.
    """

    vocabularies: dict[Name, Vocabulary] = Field(default_factory=dict)
    samples_per_shard: Positive
    max_skipped: Share
    runtime: DataRuntime = Field(default=DataRuntime())
    datasets: dict[Name, Dataset] = Field(default_factory=dict)
    download: Download | None = None
    corpora: dict[Name, Corpus] = Field(default_factory=dict)
    probes: dict[Name, ProbeSet] = Field(default_factory=dict)
    choices: dict[Name, ChoiceSet] = Field(default_factory=dict)
    texts: dict[Name, TextSet] = Field(default_factory=dict)
    primary_probe: ProbeName | None = None

    @model_validator(mode="after")
    def _primary(self) -> Self:
        for name, corpora in self.vocabularies.items():
            for corpus in corpora if corpora != "full" else ():
                if corpus in self.corpora and corpus in self.choices:
                    raise ValueError(f"vocabularies.{name}: {corpus} is both a corpus and a choice set; rename one")
        if "untrained" in self.corpora:
            raise ValueError("corpora.untrained: this name is taken by the untrained controls; choose another")
        return self

    @model_validator(mode="after")
    def _datasets(self) -> Self:
        for name, dataset in self.datasets.items():
            check_obtainable(name, dataset)
            if self.download is None and origin_of(name, dataset) == "urls":
                raise ValueError(f"datasets.{name} is fetched by its URLs: data.download must say how")
        return self

    @model_validator(mode="after")
    def _one_folder_each(self) -> Self:
        taken: dict[str, str] = {}
        for name, dataset in self.datasets.items():
            other = taken.setdefault(str(PurePath(dataset.path)), name)
            if other != name:
                raise ValueError(
                    f"datasets.{name}.path = {dataset.path}: is the path of {other} too; each needs a folder of its own"
                )
        return self

    @model_validator(mode="after")
    def _sources(self) -> Self:
        """Check each source against the dataset that it names; unknown names are reported elsewhere."""
        for section in ("corpora", "probes", "choices", "texts"):
            for name, entry in getattr(self, section).items():
                dataset = getattr(entry.source, "dataset", None)
                if dataset in self.datasets:
                    _fits(entry.source, dataset, self.datasets[dataset], f"{section}.{name}.source")
        return self


def _fits(source: Any, name: str, dataset: Dataset, where: str) -> None:
    if source.path is not None:
        raise ValueError(f"{where}: path is set in datasets.{name}; give dataset or path, not both")
    if isinstance(source, PairsCorpus):
        if source.origin is not None:
            raise ValueError(f"{where}: from is set in datasets.{name}; leave it out here")
        origin = origin_of(name, dataset)
        if origin == "files":
            raise ValueError(f"{where}: {name} has no list of pairs; give its source another kind")
        drawn = dataset.subset.pairs if dataset.subset is not None and origin == "urls" else None
        if source.pairs is not None and drawn is None:
            raise ValueError(f"{where}.pairs: datasets.{name} draws no subset of a list of URLs")
        if source.pairs is not None and drawn is not None and source.pairs > drawn:
            raise ValueError(f"{where}.pairs = {source.pairs}: datasets.{name} draws {drawn}")


def origin_of(name: str, dataset: Dataset) -> str:
    """How a dataset is obtained: as the scale says; otherwise in the registry's first way, or by the user's own list."""
    if dataset.origin is not None:
        return dataset.origin
    entry = REGISTRY.get(name)
    return entry.ways[0] if entry is not None and entry.ways and dataset.list is None else "urls"


def check_obtainable(name: str, dataset: Dataset) -> None:
    """ValueError if a dataset cannot be obtained as ``origin_of`` says."""
    entry, origin = REGISTRY.get(name), origin_of(name, dataset)
    if dataset.list is not None and dataset.list.revision is not None and (entry is None or entry.list_mirror is None):
        raise ValueError(f"datasets.{name}.list.revision: the registry has no list on the hub for it; give list.path")
    if entry is None:
        mirror = dataset.mirror
        whole = mirror is not None and None not in (mirror.repo, mirror.revision, mirror.patterns)
        if not (origin == "urls" and dataset.list is not None) and not (origin == "mirror" and whole):
            raise ValueError(
                f"datasets.{name}: not in the registry ({', '.join(REGISTRY)}); one of your own has from: urls and list, "
                "or from: mirror and mirror (repo, revision, patterns)"
            )
    elif not entry.ways:
        raise ValueError(f"datasets.{name}: is embedded; there is nothing to obtain")
    elif (
        origin not in entry.ways
        and not (origin == "urls" and dataset.list)
        and not (origin == "mirror" and dataset.mirror)
    ):
        raise ValueError(f"datasets.{name}.from = {origin}: allowed: {', '.join(entry.ways)}")
    if origin != "urls" and (dataset.list is not None or dataset.subset is not None):
        raise ValueError(f"datasets.{name}: list and subset go with from: urls")
    if origin != "mirror" and dataset.mirror is not None:
        raise ValueError(f"datasets.{name}: mirror goes with from: mirror")
    for part in dataset.parts or []:
        check_reference(f"datasets.{name}.parts", part, entry.parts if entry else (), "part")
