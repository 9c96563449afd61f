"""Metrics of single captions: each is a function here, and ``SHOWN`` names its column in Table 3.

Intervals and differences are computed from the numbers of single captions. ``SHOWN`` is parsed, not imported
(:mod:`mdc.plan.artefacts`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mdc.evaluation.metrics import words as of_words

#: in the order of columns; the first is for rendered scenes alone
SHOWN = {
    "unreadable": "unreadable words",
    "words": "words",
    "content_words": "content words",
    "content_recall": "content recall",
    "repeated": "repeats training",
    "calls": "model calls",
}


@dataclass(frozen=True)
class MeasuredCaption:
    """A ``caption``, its ``tokens`` and those of its ``references``, separated by spaces; ``seen``: it is a training caption.
    ``calls``: of its model, None if unknown."""

    caption: str
    tokens: str
    references: Sequence[str]
    seen: bool
    calls: int | None = None


#: None if unknown; tables then leave the column out
Metric = Callable[[MeasuredCaption], int | float | bool | None]
EACH: dict[str, Metric] = {}


def each(metric: Metric) -> Metric:
    """Register a metric under the function's name; its type is the return annotation."""
    EACH[metric.__name__] = metric
    return metric


@each
def words(caption: MeasuredCaption) -> int:
    return len(caption.tokens.split())


@each
def content_words(caption: MeasuredCaption) -> int:
    """Distinct ones."""
    return len(set(of_words.content_words(caption.tokens)))


@each
def content_recall(caption: MeasuredCaption) -> float:
    return of_words.content_recall(caption.tokens, caption.references)


@each
def repeated(caption: MeasuredCaption) -> bool:
    return caption.seen


@each
def calls(caption: MeasuredCaption) -> int | None:
    return caption.calls
