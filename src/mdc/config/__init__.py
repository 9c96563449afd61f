"""The parameters of the pipeline: typed, validated, resolved.

``params.yaml`` is the one place where a hyper-parameter lives. This package says what it may hold. Anything else (an
unknown key, a wrong type, ``1e-4`` read as text, a backbone that does not exist, a reversed range) ends in one line
that names the key, the value and what is allowed, before any job starts. It imports neither torch nor OpenCLIP.
"""

from mdc.config.data import ChoiceSet, Corpus, Data, Dataset, Download, DownloadRuntime, ProbeSet, TextSet, origin_of
from mdc.config.encoders import CodesTower, Encode, EncoderEntry, RunTower, WordEmbeddings
from mdc.config.params import (
    Params,
    Probe,
    Protocol,
    ProtocolData,
    ProtocolPretrain,
    ProtocolProbe,
    ProtocolStatistics,
    Scale,
)
from mdc.config.pretrain import (
    Average,
    Backbone,
    Decoder,
    FrozenBackbone,
    FrozenTokens,
    FrozenWords,
    Guidance,
    Method,
    OnTokens,
    Override,
    Pretrain,
    Recipe,
    Runtime,
    When,
)
from mdc.config.problems import first_problem
from mdc.config.read import load, parse_yaml, read_yaml, validate
from mdc.config.score import OpenClipModel, Scoring
from mdc.config.sources import CaptionList, ChoiceSource, CorpusSource, ProbeSource
from mdc.config.tables import (
    Figure3,
    LossFigure,
    MethodTable,
    PairsFigure,
    Plain,
    ProbeTable,
    RatioFigure,
    RecipeTable,
    ScheduleTable,
    Tables,
)
from mdc.config.tokenizers import GumbelVqgan, TokenizerEntry, VqVae
from mdc.config.types import Name, Names, NonNegative, Positive, Share, SidePair, Strict, sides_stand

__all__ = [
    "Average",
    "Backbone",
    "CaptionList",
    "ChoiceSet",
    "ChoiceSource",
    "CodesTower",
    "Corpus",
    "CorpusSource",
    "Data",
    "Dataset",
    "Decoder",
    "Download",
    "DownloadRuntime",
    "Encode",
    "EncoderEntry",
    "Figure3",
    "FrozenBackbone",
    "FrozenTokens",
    "FrozenWords",
    "Guidance",
    "GumbelVqgan",
    "LossFigure",
    "Method",
    "MethodTable",
    "Name",
    "Names",
    "NonNegative",
    "OnTokens",
    "OpenClipModel",
    "Override",
    "PairsFigure",
    "Params",
    "Plain",
    "Positive",
    "Pretrain",
    "Probe",
    "ProbeSet",
    "ProbeSource",
    "ProbeTable",
    "Protocol",
    "ProtocolData",
    "ProtocolPretrain",
    "ProtocolProbe",
    "ProtocolStatistics",
    "RatioFigure",
    "Recipe",
    "RecipeTable",
    "RunTower",
    "Runtime",
    "Scale",
    "ScheduleTable",
    "Scoring",
    "Share",
    "SidePair",
    "Strict",
    "Tables",
    "TextSet",
    "TokenizerEntry",
    "VqVae",
    "When",
    "WordEmbeddings",
    "first_problem",
    "load",
    "origin_of",
    "parse_yaml",
    "read_yaml",
    "sides_stand",
    "validate",
]
