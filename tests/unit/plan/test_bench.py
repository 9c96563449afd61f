"""The benches' rows: what a ratio is, and what is refused."""

import pytest
import rows
from read_table import read_table

from mdc.plan.records import UserError


def test_ratio_is_the_median_of_the_rounds_own_and_above_one_where_ours_is_better() -> None:
    rate = rows.compared("a", "p", "images/s", [10, 30, 20], [10, 10, 5])
    assert (rate.ours, rate.theirs, rate.ratio, rate.low, rate.high) == (20, 10, 3, 1, 4)
    cost = rows.compared("a", "p", "s", [1, 2, 4], [4, 4, 4])
    assert (cost.ours, cost.ratio, cost.low, cost.high, cost.repeats) == (2, 2, 1, 4, 3)
    for ours, theirs in (([1.0], [1.0, 2.0]), ([], [])):
        with pytest.raises(UserError, match="as many of each"):
            rows.compared("a", "p", "s", ours, theirs)
    assert rate.machine and rate.versions["torch"]


@pytest.mark.parametrize(("change", "why"), read_table(__file__, "wrong"))
def test_wrong_rows_are_refused_in_one_line(change: dict[str, object], why: str) -> None:
    row = rows.compared("a step", "the peer", "images/s", [4, 8, 4], [2, 2, 2], "fp32, 1 thread").model_dump()
    rows.checked(row, "here")
    with pytest.raises(UserError, match=rf"^here: .*{why}"):
        rows.checked(row | change, "here")
