"""The numbers of zero-shot classification by the score of each class's caption, from per-item results."""

from functools import cache

import numpy as np

from mdc.plan.records import UserError
from mdc.report.manifests import Table, read_table
from mdc.report.results import METRICS, Results
from mdc.report.statistics.replicates import Items, rows_of

#: kind of score → its column of ``items.parquet``
_VALUES = {"own": "value", "debiased": "debiased"}


class ZeroShot(Results):
    """The table of zero-shot classification; a column is a probe."""

    shortcut_name = "most frequent class"

    def read(self) -> None:
        items_of = cache(self._classified)
        for system in self.job.systems:
            for column in self.columns:
                key = column, system.estimator, system.more["shown"]
                self.items[system.key, column] = [items_of(name)[key] for name in system.records]
        probes = self.first(self.job.systems[0])["probes"]
        for column in self.columns:
            self.metric[column] = METRICS["top1"]
            self.chance[column], self.shortcut[column] = probes[column]["chance"], probes[column]["most_frequent"]

    def _classified(self, name: str) -> dict[tuple[str, str, str], Items]:
        """The items of the job ``name`` by (probe, estimator, ``own`` or ``debiased``), each right or not. UserError if they do
        not match its record."""
        probes = self.record(name)["probes"]

        def items_of(table: Table) -> dict[tuple[str, str, str], Items]:
            places = rows_of(list(zip(table["probe"], table["estimator"], strict=True)))
            by_key: dict[tuple[str, str, str], Items] = {}
            for probe, (estimator, top1) in ((p, of) for p in self.columns for of in probes[p]["top1"].items()):
                rows = places.get((probe, estimator), [])
                ids = tuple(str(table["item"][row]) for row in rows)
                groups = tuple(f"{probe}/{item}" for item in ids)
                for shown, column in _VALUES.items():
                    if top1[column] is not None:
                        values = np.array([table[column][row] for row in rows], dtype=np.float64)
                        items = by_key[probe, estimator, shown] = Items(ids, values, groups, kind="answers")
                        if not abs(100 * items.value - top1[column]) <= 1e-3:
                            raise UserError(
                                f"{probe}, {estimator}: the record says {top1[column]:.3f}, its items another value"
                            )
            return by_key

        return read_table(self.manifests, name, "items.parquet", items_of)
