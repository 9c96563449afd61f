"""The parameters of the pipeline: typed, validated, resolved.

``params.yaml`` is the one place where a hyper-parameter lives. This package says what it may hold. Anything else (an
unknown key, a wrong type, ``1e-4`` read as text, a backbone that does not exist, a reversed range) ends in one line
that names the key, the value and what is allowed, before any job starts. It imports neither torch nor OpenCLIP.
"""

from mdc.plan.config.backbones import (
    Backbone,
    Decoder,
    FrozenBackbone,
    FrozenTokens,
    FrozenWords,
    JobBackbone,
    OnTokens,
    Reads,
    ResNet,
    TrainedBackbone,
)
from mdc.plan.config.choice_sources import ChoiceSource
from mdc.plan.config.data import (
    ChoiceSet,
    Corpus,
    Data,
    DataRuntime,
    Dataset,
    Download,
    DownloadRuntime,
    ProbeSet,
    TextSet,
    origin_of,
)
from mdc.plan.config.encoders import CodesTower, Encode, EncoderEntry, RunTower, WordEmbeddings
from mdc.plan.config.params import Params, Protocol, ProtocolData, ProtocolPretrain, ProtocolProbe, ProtocolStatistics
from mdc.plan.config.pretrain import (
    Average,
    Blocks,
    Guidance,
    Method,
    Override,
    Pretrain,
    Recipe,
    Runtime,
    When,
)
from mdc.plan.config.problems import first_problem
from mdc.plan.config.read import load, overlaid, parse_yaml, read_yaml, validate
from mdc.plan.config.scale import Probe, ProbeRuntime, Scale
from mdc.plan.config.score import OpenClipModel, Scoring
from mdc.plan.config.sources import CaptionList, CorpusSource, ProbeSource
from mdc.plan.config.tables import (
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
from mdc.plan.config.tokenizers import GumbelVqgan, TokenizerEntry, VqVae
from mdc.plan.config.types import Name, Names, NonNegative, Positive, Share, SidePair, Strict, sides_stand

__all__ = [
    "Average",
    "Backbone",
    "Blocks",
    "CaptionList",
    "ChoiceSet",
    "ChoiceSource",
    "CodesTower",
    "Corpus",
    "CorpusSource",
    "Data",
    "DataRuntime",
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
    "JobBackbone",
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
    "ProbeRuntime",
    "ProbeSet",
    "ProbeSource",
    "ProbeTable",
    "Protocol",
    "ProtocolData",
    "ProtocolPretrain",
    "ProtocolProbe",
    "ProtocolStatistics",
    "RatioFigure",
    "Reads",
    "Recipe",
    "RecipeTable",
    "ResNet",
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
    "TrainedBackbone",
    "VqVae",
    "When",
    "WordEmbeddings",
    "first_problem",
    "load",
    "origin_of",
    "overlaid",
    "parse_yaml",
    "read_yaml",
    "sides_stand",
    "validate",
]
