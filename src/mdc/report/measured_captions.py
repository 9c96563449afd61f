"""The measured captions that Table 3 was handed: of each system what every image counts, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.data.scenes.oracle import COUNTS, KINDS
from mdc.data.scenes.true_words import WORD_KINDS
from mdc.plan.records import UserError, sha256_file
from mdc.report.items import ProbeItems, mean_items
from mdc.report.statistics.corpus_scores import bleu, meteor

Floats = NDArray[np.float64]
FILE = "metrics.parquet"
_YES_OR_NO = ("repeated",)


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

    def items(self, column: str) -> ProbeItems | None:
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
        shares = found / 100  # all is multiplied by 100 in the end, what is counted too
        if column in _YES_OR_NO:
            return ProbeItems(self.images, value=shares)
        return mean_items(self.images, shares)

    def _whole(self, counts: Floats | None, score: Any) -> ProbeItems | None:
        if counts is None:
            return None
        return ProbeItems(self.images, statistic=lambda drawn: score(drawn @ counts))

    def _chair(self, column: str) -> ProbeItems | None:
        """Of the objects that are named, those that are not there (i); captions that name one (s); objects a caption."""
        if self.objects is None:
            return None
        named, wrong = self.objects[:, 0], self.objects[:, 1]
        if column == "CHAIRs":
            return ProbeItems(self.images, value=(wrong > 0).astype(np.float64))
        if column == "objects":
            return mean_items(self.images, named / 100)
        return self._share(wrong, named)

    def _words(self, kind: str) -> ProbeItems | None:
        """Of the words of a ``kind``, those that are true of the scene."""
        if self.true_words is None:
            return None
        place = 2 * WORD_KINDS.index(kind)
        return self._share(self.true_words[:, place], self.true_words[:, place + 1])

    def _share(self, part: Floats, over: Floats) -> ProbeItems:
        """A part of all that images together have; 0 where they have nothing."""

        def share(drawn: Floats) -> Floats:
            whole = drawn @ over
            return np.asarray(np.divide(drawn @ part, whole, out=np.zeros(len(drawn)), where=whole > 0))

        return ProbeItems(self.images, statistic=share)

    def _statements(self, what: str, kind: str) -> ProbeItems | None:
        """True ones of those that are stated, or told facts of all; of one ``kind`` or, if that is "", of all."""
        if self.truth is None:
            return None
        chosen = self.truth[:, [KINDS.index(kind)] if kind else slice(None)].sum(axis=1)
        over = chosen[:, COUNTS.index("stated" if what == "true" else "facts")]
        # captions that state nothing tell nothing that is true
        return self._share(chosen[:, COUNTS.index(what)], over)


def read_measured(path: Path, sha256: str) -> dict[str, MeasuredCaptions]:
    """All systems of a ``metrics.parquet``; UserError if it is missing, not the one its record names, or lacks a column."""
    import pyarrow
    import pyarrow.parquet as parquet

    if sha256_file(path) != sha256:
        raise UserError(f"{path}: not the file that its record names (its sha256 differs); measure again")
    try:
        table = parquet.ParquetFile(path).read()
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(columns["system"]):
            rows.setdefault(name, []).append(row)
        return {name: _one(columns, some) for name, some in rows.items()}
    except (OSError, pyarrow.ArrowException, ValueError, TypeError, LookupError) as error:
        raise UserError(f"{path}: no metrics can be read from it ({str(error)[:200]}); measure again") from None


def _one(columns: Mapping[str, list[Any]], rows: list[int]) -> MeasuredCaptions:
    def array(name: str) -> Floats | None:
        values = [columns[name][row] for row in rows]
        return None if any(value is None for value in values) else np.array(values, dtype=np.float64)

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
