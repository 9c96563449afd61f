"""The measured captions that Table 3 was handed: of each system what every image counts, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdc.data.scenes.oracle import COUNTS, KINDS, WORD_KINDS
from mdc.report.given import Table
from mdc.report.statistics.corpus_scores import bleu, meteor
from mdc.report.statistics.replicates import Floats, Items, Kind, Statistic

FILE = "metrics.parquet"
_YES_OR_NO = ("repeated", "CHAIRs")
#: what is no share of anything, though it is printed times 100 like one
_NUMBERS = ("CIDEr", "CLIPScore", "RefCLIPScore", "words", "unreadable", "content_words", "objects", "calls")


@dataclass(frozen=True, eq=False)
class MeasuredCaptions:
    """One system on N images. ``columns``: name → (N,), of metrics that are available; ``bleu`` (N, 10) and ``meteor`` (N,
    23): what they count; ``truth`` (N, kinds, counts) as :mod:`mdc.data.scenes.oracle` has them; ``objects`` (N, 2): those that a
    caption names, and those of them that are not there; ``true_words`` (N, kinds · 2) as the function of that name there has
    them. None where there is none."""

    images: tuple[str, ...]
    columns: Mapping[str, Floats]
    bleu: Floats | None
    meteor: Floats | None
    truth: Floats | None
    objects: Floats | None
    true_words: Floats | None = None

    def items(self, column: str) -> Items | None:
        """What a column of Table 3 is made of, as shares of 1; None if it is not available."""
        what, _, kind = column.partition("_")
        if column.startswith("BLEU-"):
            return self._whole(self.bleu, lambda sums: bleu(sums, int(column[-1])))
        if column == "METEOR":
            return self._whole(self.meteor, meteor)
        if column in ("CHAIRi", "CHAIRs", "objects"):
            return None if self.objects is None else self._chair(column, *self.objects.T)
        if what == "word":  # of the words of a kind, those that are true of the scene
            place = 2 * WORD_KINDS.index(kind)
            return None if self.true_words is None else self._share(*self.true_words[:, place : place + 2].T)
        if what in ("true", "told"):
            return None if self.truth is None else self._statements(self.truth, what, kind)
        found = self.columns.get(column)
        # all is multiplied by 100 in the end, what is counted too
        return None if found is None else self._means(column, found / 100)

    def _means(self, column: str, values: Floats) -> Items:
        kind: Kind = "answers" if column in _YES_OR_NO else "number" if column in _NUMBERS else "share"
        return Items(self.images, values, self.images, kind=kind)

    def _whole(self, counts: Floats | None, score: Statistic) -> Items | None:
        if counts is None:
            return None
        return Items(self.images, lambda drawn: score(drawn @ counts), self.images, kind="share")

    def _chair(self, column: str, named: Floats, wrong: Floats) -> Items:
        """Of the objects that are named, those that are not there (i); captions that name one (s); objects a caption."""
        if column == "CHAIRi":
            return self._share(wrong, named)
        return self._means(column, (wrong > 0).astype(np.float64) if column == "CHAIRs" else named / 100)

    def _statements(self, truth: Floats, what: str, kind: str) -> Items:
        """True ones of those that are stated, or told facts of all; of one ``kind`` or, if that is "", of all."""
        chosen = truth[:, [KINDS.index(kind)] if kind else slice(None)].sum(axis=1)
        over = chosen[:, COUNTS.index("stated" if what == "true" else "facts")]
        # captions that state nothing tell nothing that is true
        return self._share(chosen[:, COUNTS.index(what)], over)

    def _share(self, part: Floats, over: Floats) -> Items:
        """A part of all that images together have; 0 where they have nothing."""

        def share(drawn: Floats) -> Floats:
            whole = drawn @ over
            return np.asarray(np.divide(drawn @ part, whole, out=np.zeros(len(drawn)), where=whole > 0))

        return Items(self.images, share, self.images, kind="share")


def measured_of(table: Table) -> dict[str, MeasuredCaptions]:
    """All systems of a ``metrics.parquet``."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table["system"]):
        rows.setdefault(name, []).append(row)
    return {name: _one(table, some) for name, some in rows.items()}


def _one(columns: Mapping[str, list[Any]], rows: list[int]) -> MeasuredCaptions:
    def array(name: str) -> Floats | None:
        values = [columns[name][row] for row in rows]
        if any(value is None for value in values):
            return None
        found = np.array(values, dtype=np.float64)
        if not np.isfinite(found).all():
            raise ValueError(f"{name}: a result is no finite number")
        return found

    named = set(columns) - {"system", "image", "bleu_counts", "meteor_counts", "truth", "objects", "true_words"}
    # of these a share, not a number in per cent, is stored
    factor = {"content_recall": 100.0, "repeated": 100.0}
    truth = array("truth")
    return MeasuredCaptions(
        tuple(columns["image"][row] for row in rows),
        {name: found * factor.get(name, 1.0) for name in sorted(named) if (found := array(name)) is not None},
        array("bleu_counts"),
        array("meteor_counts"),
        None if truth is None else truth.reshape(len(rows), len(KINDS), len(COUNTS)),
        array("objects"),
        array("true_words"),
    )
