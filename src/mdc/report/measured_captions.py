"""The measured captions that Table 3 was handed: of each system what every image counts, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdc.data.scenes.oracle import COUNTS, KINDS
from mdc.data.scenes.true_words import WORD_KINDS
from mdc.report.given import Table
from mdc.report.statistics.corpus_scores import bleu, meteor
from mdc.report.statistics.replicates import Floats, Items, Kind, Statistic

FILE = "metrics.parquet"
_YES_OR_NO = ("repeated", "CHAIRs")
#: what is no share of anything, though it is printed times 100 like one
_NUMBERS = ("CIDEr", "CLIPScore", "RefCLIPScore", "words", "unreadable", "content_words", "objects")


@dataclass(frozen=True, eq=False)
class MeasuredCaptions:
    """One system on N images. ``columns``: name → (N,), of metrics that are available; ``bleu`` (N, 10) and ``meteor`` (N,
    23): what they count; ``truth`` (N, kinds, counts) as :mod:`mdc.data.scenes.oracle` has them; ``objects`` (N, 2): those that a
    caption names, and those of them that are not there; ``true_words`` (N, kinds · 2) as :mod:`mdc.data.scenes.true_words` has
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
        if column.startswith("BLEU-"):
            return self._whole(self.bleu, lambda sums: bleu(sums, int(column[-1])))
        if column == "METEOR":
            return self._whole(self.meteor, meteor)
        if column in ("CHAIRi", "CHAIRs", "objects"):
            return self._chair(column)
        if column.startswith("word_"):
            return self._words(column.removeprefix("word_"))
        if column.partition("_")[0] in ("true", "told"):
            return self._statements(*column.partition("_")[::2])
        found = self.columns.get(column)
        if found is None:
            return None
        return self._means(column, found / 100)  # all is multiplied by 100 in the end, what is counted too

    def _means(self, column: str, values: Floats) -> Items:
        kind: Kind = "answers" if column in _YES_OR_NO else "number" if column in _NUMBERS else "share"
        return Items(self.images, values, self.images, kind=kind)

    def _statistic(self, of: Statistic) -> Items:
        return Items(self.images, of, self.images, kind="share")

    def _whole(self, counts: Floats | None, score: Statistic) -> Items | None:
        return None if counts is None else self._statistic(lambda drawn: score(drawn @ counts))

    def _chair(self, column: str) -> Items | None:
        """Of the objects that are named, those that are not there (i); captions that name one (s); objects a caption."""
        if self.objects is None:
            return None
        named, wrong = self.objects[:, 0], self.objects[:, 1]
        if column == "CHAIRs":
            return self._means(column, (wrong > 0).astype(np.float64))
        if column == "objects":
            return self._means(column, named / 100)
        return self._share(wrong, named)

    def _words(self, kind: str) -> Items | None:
        """Of the words of a ``kind``, those that are true of the scene."""
        if self.true_words is None:
            return None
        place = 2 * WORD_KINDS.index(kind)
        return self._share(self.true_words[:, place], self.true_words[:, place + 1])

    def _share(self, part: Floats, over: Floats) -> Items:
        """A part of all that images together have; 0 where they have nothing."""

        def share(drawn: Floats) -> Floats:
            whole = drawn @ over
            return np.asarray(np.divide(drawn @ part, whole, out=np.zeros(len(drawn)), where=whole > 0))

        return self._statistic(share)

    def _statements(self, what: str, kind: str) -> Items | None:
        """True ones of those that are stated, or told facts of all; of one ``kind`` or, if that is "", of all."""
        if self.truth is None:
            return None
        chosen = self.truth[:, [KINDS.index(kind)] if kind else slice(None)].sum(axis=1)
        over = chosen[:, COUNTS.index("stated" if what == "true" else "facts")]
        # captions that state nothing tell nothing that is true
        return self._share(chosen[:, COUNTS.index(what)], over)


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
