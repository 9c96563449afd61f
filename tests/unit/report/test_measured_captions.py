"""What is read back of measured captions."""

import math

import pytest

from mdc.report.measured_captions import measured_of


@pytest.mark.parametrize(
    ("column", "cell"), [("CIDEr", math.nan), ("bleu_counts", [math.nan] * 9), ("objects", [1, math.inf])]
)
def test_a_result_that_is_no_number_is_refused_and_one_that_is_not_there_is_not(column: str, cell: object) -> None:
    table: dict[str, list[object]] = {
        name: [None] for name in ("bleu_counts", "meteor_counts", "truth", "objects", "true_words")
    }
    table |= {"system": ["mdc"], "image": ["a"], "CIDEr": [1.0]}
    found = measured_of(table)["mdc"]
    assert found.items("CIDEr") is not None and found.items("BLEU-4") is None
    with pytest.raises(ValueError, match=f"{column}: a result is no finite number"):
        measured_of({**table, column: [cell]})
