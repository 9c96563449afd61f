"""The measured captions of Table 3: per-image results of each system, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdc.data.scenes.oracle import COUNTS, KINDS, WORD_KINDS
from mdc.report.manifests import Table
from mdc.report.statistics.corpus_scores import bleu, meteor
from mdc.report.statistics.replicates import Floats, Items, Kind, Statistic, rows_of

FILE = "metrics.parquet"
_YES_OR_NO = ("repeated", "CHAIRs")
#: units of metrics that are no shares, but are multiplied by 100 all the same; the first three are printed so
UNITS = {
    **dict.fromkeys(("CIDEr", "CLIPScore", "RefCLIPScore"), "x 100"),
    **dict.fromkeys(("words", "unreadable", "calls"), "per caption"),
    "content_words": "distinct words per caption",
    "objects": "per caption",
}
#: a column of Table 3, without its kind → the column of the file that it is computed from, where names differ
_MADE_OF = {
    **dict.fromkeys(("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"), "bleu_counts"),
    "METEOR": "meteor_counts",
    **dict.fromkeys(("CHAIRi", "CHAIRs"), "objects"),
    "word": "true_words",
    **dict.fromkeys(("precision", "recall"), "truth"),
}


@dataclass(frozen=True, eq=False)
class MeasuredCaptions:
    """One system on N images. ``columns``: name → array, where available: metrics (N,); ``bleu_counts`` (N, 10);
    ``meteor_counts`` (N, 23); ``truth`` (N, kinds, counts) and ``true_words`` (N, kinds · 2) as in
    :mod:`mdc.data.scenes.oracle`; ``objects`` (N, 2): objects that a caption names, and those of them that are not in the
    image."""

    images: tuple[str, ...]
    columns: Mapping[str, Floats]

    def items(self, column: str) -> Items | None:
        """The items of a column of Table 3, in shares of 1; None if it is not available."""
        metric, _, kind = column.partition("_")
        values = self.columns.get(_MADE_OF.get(metric, column))
        if values is None:
            return None
        if metric.startswith("BLEU-"):
            return self._whole(lambda drawn: bleu(drawn @ values, int(metric[-1])))
        if metric == "METEOR":
            return self._whole(lambda drawn: meteor(drawn @ values))
        if metric == "CHAIRi":  # the share of named objects that are not in the image
            return self._share(values[:, 1], values[:, 0])
        if metric == "CHAIRs":  # captions that name one
            return self._means(column, (values[:, 1] > 0).astype(np.float64))
        if metric == "word":  # the share of words of a kind that hold of the scene
            place = 2 * WORD_KINDS.index(kind)
            return self._share(*values[:, place : place + 2].T)
        if metric in ("precision", "recall"):
            return self._statements(values, metric, kind)
        # everything is multiplied by 100 in the end, counts too
        return self._means(column, (values[:, 0] if metric == "objects" else values) / 100)

    def _means(self, column: str, values: Floats) -> Items:
        kind: Kind = "answers" if column in _YES_OR_NO else "number" if column in UNITS else "share"
        return Items(self.images, values, self.images, kind=kind)

    def _whole(self, score: Statistic) -> Items:
        return Items(self.images, score, self.images, kind="share")

    def _statements(self, truth: Floats, measure: str, kind: str) -> Items:
        """Precision of stated facts, or recall of the scene's facts; of one ``kind``, or of all if "" is
        given."""
        chosen = truth[:, [KINDS.index(kind)] if kind else slice(None)].sum(axis=1)
        part, whole = ("true", "stated") if measure == "precision" else ("told", "facts")
        # 0 for captions that state nothing
        return self._share(*(chosen[:, COUNTS.index(count)] for count in (part, whole)))

    def _share(self, part: Floats, denominator: Floats) -> Items:
        """The ratio of sums over images; 0 where the denominator is 0."""

        def share(drawn: Floats) -> Floats:
            whole = drawn @ denominator
            return np.asarray(np.divide(drawn @ part, whole, out=np.zeros(len(drawn)), where=whole > 0))

        return self._whole(share)


def measured_of(table: Table) -> dict[str, MeasuredCaptions]:
    """All systems of a ``metrics.parquet``."""
    return {name: _measured_system(table, rows) for name, rows in rows_of(table["system"]).items()}


def _measured_system(columns: Mapping[str, list[Any]], rows: list[int]) -> MeasuredCaptions:
    def array(name: str) -> Floats | None:
        values = [columns[name][row] for row in rows]
        if any(value is None for value in values):
            return None
        array_of_column = np.array(values, dtype=np.float64)
        if not np.isfinite(array_of_column).all():
            raise ValueError(f"{name}: a result is no finite number")
        return array_of_column

    arrays = {name: array(name) for name in columns if name not in ("system", "image")}
    available = {name: values for name, values in arrays.items() if values is not None}
    for share in {"content_recall", "repeated"} & available.keys():
        available[share] = 100 * available[share]  # stored as a share, unlike the others, which are in per cent
    if "truth" in available:
        available["truth"] = available["truth"].reshape(len(rows), len(KINDS), len(COUNTS))
    return MeasuredCaptions(tuple(columns["image"][row] for row in rows), available)
