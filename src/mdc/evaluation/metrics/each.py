"""Metrics of single captions: each is a function here, and ``SHOWN`` names the column of Table 3 that shows it.

Intervals, differences and seeds follow from the numbers of single captions. ``SHOWN`` is read as text, as that of a table
(:mod:`mdc.plan.artefacts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mdc.evaluation.metrics import words as of_words

#: in the order of columns; the first comes from the built-in world, whose truth is known
SHOWN = {
    "unreadable": "unreadable words",
    "words": "words",
    "content_words": "content words",
    "content_recall": "content recall",
    "repeated": "repeats training",
    "calls": "model calls",
}


@dataclass(frozen=True)
class Written:
    """A ``caption`` as it was written, and its ``tokens`` and those of its ``references`` with a space between them; ``seen``:
    it is one of the training captions. ``calls``: how often its model was called, None if that is not known."""

    caption: str
    tokens: str
    references: Sequence[str]
    seen: bool
    calls: int | None = None


#: None where it is not known; then tables leave the column out
Metric = Callable[[Written], int | float | bool | None]
EACH: dict[str, Metric] = {}


def each(metric: Metric) -> Metric:
    """Measure it of every caption, under the function's name; its kind of number is the one that it is annotated with."""
    EACH[metric.__name__] = metric
    return metric


@each
def words(one: Written) -> int:
    return len(one.tokens.split())


@each
def content_words(one: Written) -> int:
    """Those that differ."""
    return len(set(of_words.content_words(one.tokens)))


@each
def content_recall(one: Written) -> float:
    return of_words.content_recall(one.tokens, one.references)


@each
def repeated(one: Written) -> bool:
    return one.seen


@each
def calls(one: Written) -> int | None:
    return one.calls
