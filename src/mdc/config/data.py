"""The data of a scale: its datasets, what is made of them, and how that is cut into shards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mdc.config.sources import (
    CaptionList,
    ChoiceSource,
    CorpusSource,
    PairsCorpus,
    ProbeSource,
)
from mdc.config.types import (
    Column,
    DataPath,
    Name,
    Names,
    Network,
    NonNegative,
    Positive,
    Share,
    Strict,
    Threads,
    known,
)
from mdc.registry.datasets import REGISTRY


class Corpus(Strict):
    """Captioned images."""

    label: str
    source: CorpusSource


class ProbeSet(Strict):
    """Labelled images."""

    label: str
    source: ProbeSource


class ChoiceSet(Strict):
    """Images with one right caption among several."""

    label: str
    source: ChoiceSource


class TextSet(Strict):
    """Captions without their images, for the figure of their lengths."""

    label: str
    source: CaptionList


class UrlList(Strict):
    """A list of image URLs and captions: a file under MDC_DATA or a folder of them, and its columns.

    What is left out is as the registry has it for its own lists, otherwise: the format by the name's end, a header, and
    columns ``url`` and ``caption``. ``key_column`` is what a subset is drawn by; without it, the pair itself.
    """

    path: DataPath
    format: Literal["tsv", "csv", "jsonl", "parquet"] | None = None
    header: bool | None = None
    url_column: Column | None = None
    caption_column: Column | None = None
    key_column: Column | None = None


class Subset(Strict):
    """``pairs`` of a list, drawn by a hash of (seed, key): each smaller subset lies within every larger one."""

    pairs: Positive
    seed: NonNegative = 0


class HubMirror(Strict):
    """Another repository of the Hugging Face hub, commit or files than the registry's; what is left out is as there."""

    repo: str | None = None
    revision: str | None = None
    patterns: list[str] | None = None


class Dataset(Strict):
    """Where a dataset lies, and how it comes there; what it is stands in mdc.registry (``mdc data list``).

    ``from: urls``: every image of a list by its URL. ``mirror``: ready shards from a repository of the Hugging Face hub.
    ``files``: its own archives, or the user's copy of them. Left out, it is the first that the registry has.
    """

    path: DataPath
    origin: Annotated[Literal["urls", "mirror", "files"] | None, Field(alias="from")] = None
    list: UrlList | None = None
    subset: Subset | None = None
    mirror: HubMirror | None = None
    parts: Names | None = None  # of its files; None: all


class Download(Strict):
    """How images are fetched by their URLs, and what is kept of them."""

    image_size: Positive  # pixels of the shorter side; larger images are made smaller
    rows_per_shard: Positive
    max_bytes: Positive
    min_image_size: NonNegative
    max_pixels: Annotated[int, Field(gt=0, le=89_478_485)]  # mdc.formats.images takes no more
    max_aspect: Annotated[float, Field(ge=1, le=200)]  # … nor longer ones
    quality: Annotated[int, Field(ge=1, le=100)]
    respect_robots: bool  # the X-Robots-Tag of an answer
    runtime: DownloadRuntime


class DownloadRuntime(Strict):
    """How a download proceeds; changing it makes nothing anew that is there."""

    processes: Threads
    threads: Threads  # of each process
    timeout: Annotated[float, Field(gt=0)]  # seconds without a byte
    deadline: Annotated[float, Field(gt=0)]  # seconds for one whole transfer
    retries: NonNegative
    allow_addresses: list[Network]  # networks that are not public, and may be asked all the same
    use_proxy: bool  # the environment's


class Data(Strict):
    vocabulary: Literal["full", "corpus"]
    samples_per_shard: Positive
    max_skipped: Share
    datasets: dict[Name, Dataset] = Field(default_factory=dict)
    download: Download | None = None
    corpora: dict[Name, Corpus]
    probes: dict[Name, ProbeSet]
    choices: dict[Name, ChoiceSet] = Field(default_factory=dict)
    texts: dict[Name, TextSet] = Field(default_factory=dict)
    primary_probe: Name

    @model_validator(mode="after")
    def _primary(self) -> Self:
        known("primary_probe", self.primary_probe, self.probes, "probe")
        if "untrained" in self.corpora:
            raise ValueError("corpora.untrained: this name is taken by the untrained controls; choose another")
        return self

    @model_validator(mode="after")
    def _datasets(self) -> Self:
        for name, dataset in self.datasets.items():
            _obtainable(name, dataset)
            if self.download is None and origin_of(name, dataset) == "urls":
                raise ValueError(f"datasets.{name} is fetched by its URLs: data.download must say how")
        sets: tuple[tuple[str, Mapping[str, Any]], ...] = (
            ("corpora", self.corpora),
            ("probes", self.probes),
            ("choices", self.choices),
            ("texts", self.texts),
        )
        for section, entries in sets:
            for name, entry in entries.items():
                self._source(f"{section}.{name}.source", entry.source)
        return self

    @model_validator(mode="after")
    def _one_folder_each(self) -> Self:
        taken: dict[str, str] = {}
        for name, dataset in self.datasets.items():
            other = taken.setdefault(str(PurePath(dataset.path)), name)
            if other != name:
                raise ValueError(
                    f"datasets.{name}.path = {dataset.path}: is that of {other}; each has a folder of its own"
                )
        return self

    def _source(self, where: str, source: Any) -> None:
        for key in ("dataset", "images_from"):
            if getattr(source, key, None) is not None:
                known(f"{where}.{key}", getattr(source, key), self.datasets, "dataset")
        if getattr(source, "dataset", None) is None:
            return
        if source.path is not None:
            raise ValueError(f"{where}: path stands in datasets.{source.dataset}; give dataset or path, not both")
        if isinstance(source, PairsCorpus):
            if source.origin is not None:
                raise ValueError(f"{where}: from stands in datasets.{source.dataset}; leave it out here")
            dataset = self.datasets[source.dataset]
            origin = origin_of(source.dataset, dataset)
            if origin == "files":
                raise ValueError(f"{where}: {source.dataset} is no list of pairs; its source is of another kind")
            if source.pairs is not None and (dataset.subset is None or origin != "urls"):
                raise ValueError(f"{where}.pairs: datasets.{source.dataset} draws no subset of a list of URLs")
            if source.pairs is not None and dataset.subset is not None and source.pairs > dataset.subset.pairs:
                most = dataset.subset.pairs
                raise ValueError(f"{where}.pairs = {source.pairs}: datasets.{source.dataset} draws {most}")


def origin_of(name: str, dataset: Dataset) -> str:
    """How a dataset is obtained: as params.yaml says, else as the registry has it, else by the user's own list."""
    if dataset.origin is not None:
        return dataset.origin
    entry = REGISTRY.get(name)
    return entry.ways[0] if entry is not None and entry.ways and dataset.list is None else "urls"


def _obtainable(name: str, dataset: Dataset) -> None:
    entry, origin = REGISTRY.get(name), origin_of(name, dataset)
    if entry is None:
        whole = dataset.mirror is not None and None not in dataset.mirror.model_dump().values()
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
        known(f"datasets.{name}.parts", part, dict.fromkeys(entry.parts) if entry else {}, "part")
