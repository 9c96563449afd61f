"""What is read back of measured captions."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from mdc.report.caption_numbers import Captioned
from mdc.report.measured_captions import measured_of
from mdc.report.results import Results


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


def test_images_are_counted_by_dataset() -> None:
    results: Any = object.__new__(Captioned)
    systems = [SimpleNamespace(key=f"{k}/mdc", corpus=SimpleNamespace(label=k.title())) for k in ("large", "small")]
    results.job, results.columns, results.averaged = SimpleNamespace(systems=systems), {"a": "A", "b": "B"}, []
    results.items = {
        (system.key, key): [SimpleNamespace(n=n)]
        for system, n in zip(systems, (5000, 1000), strict=True)
        for key in "ab"
    }
    assert results.item_words() == "Images: Large 5000, Small 1000."
    assert Results.item_words(results) == "Test items: A 5000, B 5000."
