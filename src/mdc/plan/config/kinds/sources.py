"""Sources of samples: a class for each ``kind``, with all its keys (see mdc.data.sources.source)."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.kinds.kind import Kind
from mdc.plan.config.references import DATASET, DatasetName
from mdc.plan.config.types import Column, DataPath, HeldOut, NonNegative, Positive, Strict, Words, needing

Split = Literal["train", "val", "test"]
CorpusSplits = Annotated[dict[Literal["train", "val", "test", "unused"], Words], needing("train")]
ProbeSplits = Annotated[dict[Literal["train", "test", "unused"], Words], needing("train", "test")]


class CorpusSource(Kind):
    """A source of captioned images. ``in_parts``: it is always split into files that can be read independently
    (:class:`mdc.data.sources.cleaned.InParts`)."""

    in_parts: ClassVar[bool] = False


class ProbeSource(Kind):
    """A source of labelled images."""

    @property
    def probe_metric(self) -> Literal["top1", "map"]:
        """Its probes' metric: top-1 accuracy, or mean average precision where an image has several labels."""
        return "top1"


class Images(Strict):
    """Keys of every source of images. ``image_size``: pixels of the shorter side; larger images are resized when the shards are
    written, as upright RGB JPEGs. None: images keep their bytes."""

    image_size: Positive | None = None


class Captions(Strict):
    """Keys of every source of captions. ``caption_mode``: an image's captions are kept apart (a pass draws one), joined, or cut
    to ``max_pieces`` tokens."""

    caption_mode: Literal["each", "join", "cut"] = "each"
    max_pieces: Positive | None = None

    @model_validator(mode="after")
    def _length(self) -> Self:
        if (self.caption_mode == "cut") != (self.max_pieces is not None):
            raise ValueError("max_pieces goes with caption_mode: cut, and only with it")
        return self


class ScenesCorpus(CorpusSource):
    """The built-in world, captioned in one of three styles. A smaller ``train`` is a prefix of a larger one."""

    module = "mdc.data.sources.corpora.scenes"
    kind: Literal["scenes"]
    style: Literal["alt", "dense", "brief"]
    train: Positive
    val: Positive
    test: Positive | None = None
    seed: NonNegative
    pixels: Annotated[int, Field(ge=16, le=512)]


class RandomSplit(Strict):
    """New random splits by a hash of (``seed``, key): ``test`` and ``val`` images, all others in train."""

    seed: NonNegative
    test: Positive
    val: NonNegative = 0


class ParquetCorpus(CorpusSource, Images, Captions):
    """Image–caption pairs in a parquet file or a folder of them; ``path`` is relative to MDC_DATA or absolute.

    ``pairs``: number of rows of the train split, chosen by a hash of their keys, so that smaller subsets are nested in larger
    ones. ``resplit``: new splits of the rows of all files. ``sharded``: each file becomes one shard of each split, so that
    several jobs and processes share a folder of many files (``data.runtime``). ``val_fraction``: the share of rows, chosen by a
    hash of their keys (without keys: of the file's name and the row), that is held out where no file and no column names a split.
    """

    module = "mdc.data.sources.corpora.parquet"
    kind: Literal["parquet"]
    path: DataPath
    image_column: str = "image"
    caption_column: str | None = None
    split_column: str | None = "split"
    splits: CorpusSplits = Field(default={"train": "train", "val": "val"})
    key_column: str | None = None
    pairs: Positive | None = None
    resplit: RandomSplit | None = None
    sharded: bool = False
    val_fraction: HeldOut | None = None

    @model_validator(mode="after")
    def _splits(self) -> Self:
        defaults = {name: type(self).model_fields[name].default for name in ("split_column", "splits")}
        for name, default in defaults.items():
            if self.resplit is not None and getattr(self, name) != default:
                raise ValueError(f"resplit: makes splits of its own; leave out {name}")
        if self.val_fraction and (self.split_column is not None or self.resplit is not None or self.pairs is not None):
            raise ValueError("val_fraction: goes with split_column: null, and neither with resplit nor with pairs")
        if self.resplit is not None and self.sharded:
            raise ValueError("sharded: one job reads images that are resplit; leave out sharded, or resplit")
        return self


class TableCorpus(CorpusSource, Images, Captions):
    """A folder of images and a table of captions: CSV, TSV (without quotation), JSON lines or JSON, in UTF-8, gzipped or not.
    COCO's captions file is such a JSON, with the columns ``image`` and ``caption``.

    Columns are named; with ``header: false`` a CSV or TSV has no header, and columns are numbered from 0. Several rows of one
    image, or several caption columns, give it several captions. ``format`` defaults to the name's ending (.csv, .tsv, .tab,
    .jsonl, .ndjson, .json); a CSV has commas or another ``delimiter``. Image names are relative to ``images`` (by default the
    table's own folder); a number after a name (x.jpg#0) is removed, and names outside this folder are left out. ``val_fraction``:
    the share of images, chosen by a hash of their names, that is held out if there is no split column.
    """

    module = "mdc.data.sources.corpora.caption_table"
    kind: Literal["caption_table"]
    path: DataPath
    images: DataPath | None = None
    format: Literal["csv", "tsv", "jsonl", "json"] | None = None
    delimiter: Literal[";", "|", ","] | None = None
    header: bool = True
    image_column: Column = "image"
    caption_column: Column | Annotated[list[Column], Field(min_length=1)] = "caption"
    split_column: Column | None = None
    splits: CorpusSplits = Field(default={"train": "train", "val": "val"})
    val_fraction: HeldOut = 0.0
    key_column: Column | None = None

    @model_validator(mode="after")
    def _columns(self) -> Self:
        captions = self.caption_column if isinstance(self.caption_column, list) else [self.caption_column]
        for column in (self.image_column, *captions, self.split_column, self.key_column):
            if column is not None and isinstance(column, int) == self.header:
                raise ValueError(f"column {column!r}: a name with header: true, a number from 0 with header: false")
        if self.val_fraction and self.split_column is not None:
            raise ValueError("val_fraction holds images out where no split_column does; give one of them")
        return self


class CaptionFilesCorpus(CorpusSource, Images, Captions):
    """A folder ``path`` of images with its subfolders, each image with a text file of the same name (0001.jpg, 0001.txt), one
    caption per line.

    Folders named after splits (train/, val/) are their splits, if any is named after another than train; then all images must be
    in such folders. Without a folder of val the share ``val_fraction`` of the training images is held out, by a hash of their
    names.
    """

    module = "mdc.data.sources.corpora.caption_files"
    kind: Literal["caption_files"]
    path: DataPath
    val_fraction: HeldOut = 0.0
    splits: list[Split] = Field(default=["train", "val"])


class WebdatasetCorpus(CorpusSource, Images, Captions):
    """Tar shards as img2dataset writes them: one tar, or a folder of tars with its subfolders.

    The caption is the sample's .txt, or the field ``caption_field`` of its .json. ``splits``: a folder of shards under ``path``
    for each split; by default the split is read from the shard's name (set-validation-0001.tar). Without shards of val the share
    ``val_fraction`` of the training samples, chosen by a hash of their keys, is held out.
    """

    module = "mdc.data.sources.corpora.webdataset"
    in_parts = True
    kind: Literal["webdataset"]
    path: DataPath
    caption_field: str | None = None
    splits: Annotated[dict[Split, DataPath], needing("train")] | None = None
    val_fraction: HeldOut = 0.0

    @model_validator(mode="after")
    def _splits(self) -> Self:
        if self.splits is not None and self.val_fraction:
            raise ValueError("val_fraction holds samples out where no splits do; give one of them")
        return self


class ScenesProbe(ProbeSource):
    """A classification task of the built-in world with one right answer per image."""

    module = "mdc.data.sources.probes.scenes"
    kind: Literal["scenes"]
    task: Literal["shape", "colour", "relation", "count", "background"]
    train: Positive
    test: Positive
    seed: NonNegative
    pixels: Annotated[int, Field(ge=16, le=512)]


class DigitsProbe(ProbeSource):
    """The handwritten digits that come with scikit-learn: real images that need no download."""

    module = "mdc.data.sources.probes.digits"
    kind: Literal["digits"]
    seed: NonNegative = 0


class ParquetProbe(ProbeSource, Images):
    """Labelled images in a parquet file or a folder of them."""

    module = "mdc.data.sources.probes.parquet"
    kind: Literal["parquet"]
    path: DataPath
    image_column: str = "image"
    label_column: str = "label"
    class_name_column: str | None = None
    split_column: str | None = "split"
    splits: ProbeSplits = Field(default={"train": "train", "test": "test"})
    key_column: str | None = None


class FolderProbe(ProbeSource, Images):
    """A folder of images for each class. ``splits``: the folder of each split, with the same classes; by default they are
    searched for, and drawn at random if there are none (:mod:`mdc.data.sources.probes.class_folder`)."""

    module = "mdc.data.sources.probes.class_folder"
    kind: Literal["class_folder"]
    path: DataPath
    splits: Annotated[dict[Literal["train", "test"], DataPath], needing("train", "test")] | None = None


class NounsProbe(ProbeSource, Images):
    """A multi-label probe from a captioned parquet file: which of the ``count`` most frequent nouns does an image show?"""

    module = "mdc.data.sources.probes.caption_nouns"
    kind: Literal["caption_nouns"]
    path: DataPath
    count: Positive = 60
    image_column: str = "image"
    caption_column: str | None = None
    split_column: str = "split"
    splits: Annotated[
        dict[Literal["vocabulary", "train", "test", "unused"], Words], needing("vocabulary", "train", "test")
    ] = Field(default={"vocabulary": "train", "train": "dev", "test": "test"})
    key_column: str | None = None

    @property
    def probe_metric(self) -> Literal["top1", "map"]:
        return "map"


# --- datasets as their publishers lay them out ------------------------------------------------------------------------


class OfDataset(Strict):
    """A source that reads a dataset in its publisher's own layout.

    ``dataset``: a name under ``data.datasets``, whose ``path`` is copied into the resolved configuration.
    """

    dataset: DatasetName
    path: DataPath | None = None


class PairsCorpus(CorpusSource, OfDataset, Images, Captions):
    """The image–caption pairs that were obtained from a dataset's list of URLs or from a mirror.

    ``pairs``: the size of the prefix of the list's random subset, obtained or not; by default all. ``val_fraction``: the held-out
    share of the pairs, chosen by a hash of their URLs (for a mirror: their keys). ``from`` is the dataset's. A mirror consists of
    tars or of parquet files, whose images are in ``image_column``, by default the first column that can hold images.
    """

    module = "mdc.data.sources.corpora.pairs"
    in_parts = True
    kind: Literal["pairs"]
    origin: Annotated[Literal["urls", "mirror"] | None, Field(alias="from")] = None
    pairs: Positive | None = None
    val_fraction: HeldOut = 0.0
    caption_field: str | None = None
    image_column: str | None = None


class KarpathyCorpus(CorpusSource, OfDataset, Images, Captions):
    """Captioned images by Karpathy's split file (``annotations``, by default the set's usual one).

    ``restval``: add COCO's split of this name to "train", as is usual for training on COCO captions.
    """

    module = "mdc.data.sources.corpora.karpathy"
    kind: Literal["karpathy"]
    dataset: Annotated[Literal["mscoco", "flickr30k", "flickr8k"], DATASET]
    annotations: DataPath | None = None  # relative to the dataset's folder, as images
    images: DataPath | None = None
    splits: Annotated[dict[Split, str], needing("train")] = Field(
        default={"train": "train", "val": "val", "test": "test"}
    )
    restval: bool = True


class CocoCorpus(CorpusSource, OfDataset, Images, Captions):
    """MSCOCO by its official captions files of one year; splits train and val."""

    module = "mdc.data.sources.corpora.coco_captions"
    kind: Literal["coco_captions"]
    dataset: Annotated[Literal["mscoco"], DATASET]
    year: Literal[2014, 2017] = 2017


class Flickr8kCorpus(CorpusSource, OfDataset, Images, Captions):
    """Flickr8k's classic folder of text files and images; splits train, val and test."""

    module = "mdc.data.sources.corpora.flickr8k"
    kind: Literal["flickr8k"]
    dataset: Annotated[Literal["flickr8k"], DATASET]
    splits: list[Split] = Field(default=["train", "val", "test"])


class BuilderProbe(ProbeSource, OfDataset, Images):
    """A probe as CLIP-benchmark's dataset builder reads it: its splits, labels and class names."""

    module = "mdc.data.sources.probes.builder"
    kind: Literal["builder"]
    dataset: Annotated[
        Literal["imagenet1k", "food101", "cifar10", "cifar100", "pets", "stl10", "flowers102", "voc2007"], DATASET
    ]

    @property
    def probe_metric(self) -> Literal["top1", "map"]:
        return "map" if self.dataset == "voc2007" else "top1"

    @model_validator(mode="after")
    def _files(self) -> Self:
        if self.image_size is not None and self.dataset in ("cifar10", "cifar100", "stl10"):
            raise ValueError(f"image_size: {self.dataset} has small images of one size; leave it out")
        return self


class CaptionList(Kind, Captions):
    """Captions without images: a file or folder under MDC_DATA, or the list of a dataset.

    ``format`` follows from the name's ending; coco_json is MSCOCO's own file of captions, plain or gzipped. With
    ``split_column``, only rows with the value ``split`` in it are read. ``caption_mode`` is as in a corpus.
    """

    module = "mdc.data.sources.texts.caption_list"
    kind: Literal["caption_list"]
    dataset: DatasetName | None = None
    path: DataPath | None = None
    file: str | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "coco_json"] | None = None
    header: bool = True
    caption_column: Column = "caption"
    split_column: Column | None = None
    split: str | None = None

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if self.dataset is None and self.path is None:
            raise ValueError("give path, a file or folder, or dataset, a name under data.datasets")
        if (self.split is None) != (self.split_column is None):
            raise ValueError("split_column and split go together: the column, and the value of its rows")
        return self


#: the core's kinds
CORPORA = (
    *(ScenesCorpus, ParquetCorpus, TableCorpus, CaptionFilesCorpus, WebdatasetCorpus, PairsCorpus),
    *(KarpathyCorpus, CocoCorpus, Flickr8kCorpus),
)
PROBES = (ScenesProbe, DigitsProbe, ParquetProbe, NounsProbe, FolderProbe, BuilderProbe)
