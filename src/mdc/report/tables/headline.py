"""A table's headline numbers as a small JSON file, for `dvc metrics` and `dvc exp show`."""

from __future__ import annotations

from collections.abc import Iterable

from mdc.report.lines import AVERAGE, Number

#: decimals of a per cent or a point; far below any interval's width
DECIMALS = 2


def headline(numbers: Iterable[Number]) -> dict[str, dict[str, float]]:
    """For each trained encoder (``corpus/backbone/method``, all its seeds) its Average in per cent and its gain over
    the same encoder before training, in points."""
    return {
        number.run.split()[0].rpartition("/")[0]: {
            "average": round(number.value, DECIMALS),
            "gain": round(number.gain, DECIMALS),
        }
        for number in numbers
        if number.benchmark == AVERAGE and number.gain is not None
    }
