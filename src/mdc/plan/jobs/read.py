"""Reading a job back from its configuration, which the workflow writes (see :mod:`mdc.plan.jobs.configs`).

A file that was edited, cut short or made by another version ends in one line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from mdc.plan.config import first_problem
from mdc.plan.jobs.encoder_model import EncodedJob, EncoderJob, ImageTokensJob, TokenizerJob, WordsJob
from mdc.plan.jobs.model import (
    CaptionMetricsJob,
    CaptionsJob,
    ChoiceSetJob,
    ChoicesJob,
    CorpusJob,
    CorpusPartsJob,
    DownloadJob,
    JudgeJob,
    ObtainJob,
    PlanDownloadJob,
    PositionsJob,
    PretrainJob,
    ProbeJob,
    ProbeSetJob,
    RetrievalJob,
    TextsJob,
    VocabularyJob,
)
from mdc.plan.jobs.shown import (
    ChoiceTableJob,
    LengthsJob,
    LicencesJob,
    LossesJob,
    PositionsFigureJob,
    ProbingJob,
    RecipesJob,
    RetrievalTableJob,
    SchedulesJob,
)
from mdc.plan.jobs.shown_captions import CaptionFigureJob, CaptionTableJob, GuidanceFigureJob, RobustnessFigureJob
from mdc.plan.records import UserError, read_json

AnyArtefact = Annotated[
    ProbingJob
    | ChoiceTableJob
    | RetrievalTableJob
    | PositionsFigureJob
    | CaptionTableJob
    | GuidanceFigureJob
    | RobustnessFigureJob
    | CaptionFigureJob
    | LossesJob
    | SchedulesJob
    | LengthsJob
    | LicencesJob
    | RecipesJob,
    Field(discriminator="plan"),
]
_OF_VERB: dict[str, TypeAdapter[Any]] = {
    "obtain": TypeAdapter(ObtainJob),
    "plan-download": TypeAdapter(PlanDownloadJob),
    "download": TypeAdapter(DownloadJob),
    "corpus-parts": TypeAdapter(CorpusPartsJob),
    "corpus": TypeAdapter(CorpusJob),
    "probe-set": TypeAdapter(ProbeSetJob),
    "choice-set": TypeAdapter(ChoiceSetJob),
    "texts": TypeAdapter(TextsJob),
    "vocabulary": TypeAdapter(VocabularyJob),
    "tokenizer": TypeAdapter(TokenizerJob),
    "import-words": TypeAdapter(WordsJob),
    "import-encoder": TypeAdapter(EncoderJob),
    "encode-corpus": TypeAdapter(EncodedJob),
    "image-tokens": TypeAdapter(ImageTokensJob),
    "pretrain": TypeAdapter(PretrainJob),
    "probe": TypeAdapter(ProbeJob),
    "score-choices": TypeAdapter(ChoicesJob),
    "score-pairs": TypeAdapter(RetrievalJob),
    "score-positions": TypeAdapter(PositionsJob),
    "write-captions": TypeAdapter(CaptionsJob),
    "measure-captions": TypeAdapter(CaptionMetricsJob),
    "judge-captions": TypeAdapter(JudgeJob),
    "make": TypeAdapter(AnyArtefact),
}


def read_job(path: str | Path, verb: str) -> Any:
    """The typed job of ``verb`` in a file; UserError, naming the file and its first problem, if it holds none."""
    config = read_json(path)
    if config.get("verb") != verb:
        raise UserError(f"{path}: not a configuration of `mdc {verb}`; `mdc config JOB` prints one")
    return as_job(config, verb, str(path))


def as_job(config: dict[str, Any], verb: str, where: str) -> Any:
    """``config`` as the typed job of ``verb``; UserError that begins with ``where`` if it is none."""
    try:
        # as JSON: there a list is a tuple's own form, which a strict class otherwise refuses
        return _OF_VERB[verb].validate_json(json.dumps(config))
    except ValidationError as error:
        raise UserError(f"{where}: {first_problem(error, config)}; `mdc config JOB` prints a good one") from None
