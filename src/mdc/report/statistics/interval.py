"""A value with its confidence interval, as every table and figure takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

#: How an interval was made: see the modules ``bootstrap``, ``exact`` and ``seeds``. "seeds" (Student's t over seeds alone)
#: and "steps" (blocks of logged steps) occur in ``steadiness`` only, where there are no test items; "splits" in ``splits``.
Kind = Literal["bootstrap", "exact", "seeds and items", "seeds", "steps", "splits"]


#: what holds where a caller names nothing else; of tables and figures, params.yaml does (protocol.statistics)
LEVEL, COMPARABLE, POWER, DRAWS = 0.95, 2.0, 0.8, 2000


@dataclass(frozen=True)
class Interval:
    """``value`` with its two-sided interval ``low`` to ``high`` at ``level``.

    ``n``: test items behind it (in ``steadiness``: logged steps or seeds). ``seeds``: training runs behind it. ``p``: of a
    difference, the two-sided p-value of its being 0; of a level None. ``draws``: the bootstrap resamples that were really
    used, which are those on which the statistic was defined; None if nothing was resampled. ``df``: degrees of freedom of
    Student's t, None of an interval that does not rest on it. ``se``: standard error, None of an exact interval.
    """

    value: float
    low: float
    high: float
    n: int
    seeds: int
    kind: Kind
    p: float | None = None
    draws: int | None = None
    df: float | None = None
    se: float | None = None
    level: float = LEVEL

    def times(self, factor: float) -> Interval:
        """The same in another unit; ``factor`` above 0, for example 100 from shares to points."""
        return replace(
            self,
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            se=None if self.se is None else self.se * factor,
        )

    @property
    def known(self) -> bool:
        """Whether anything can be said of the uncertainty; otherwise the interval is the whole line."""
        return math.isfinite(self.high - self.low)
