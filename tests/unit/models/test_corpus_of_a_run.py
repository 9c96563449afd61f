"""What a run reads off its corpus's index: how many captions do not fit, and how often one stands twice in a batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mdc.training.corpus import Corpus


def _corpus(captions: dict[str, Any], **recipe: int) -> Corpus:
    found: Any = object.__new__(Corpus)
    protocol = SimpleNamespace(data=SimpleNamespace(context_length=77))
    method = SimpleNamespace(objective="mask_and_replace")
    found.job = SimpleNamespace(protocol=protocol, method=method, recipe=SimpleNamespace(**recipe))
    found.index = {"captions": captions}
    return found


def test_a_caption_whose_end_has_a_place_is_not_cut() -> None:
    """Seven pieces and EOT fill eight places."""
    one = _corpus({"per_split": {"train": {"histogram": {"3": 500, "7": 496, "8": 3, "40": 1}}}})
    assert (one.length, one.cut) == (8, 4)


@pytest.mark.parametrize(("batch", "share"), [(1, 0.1), (16, 0.1), (17, 0.2), (32, 0.2), (64, 0.3), (65, 0.3)])
def test_the_share_of_duplicates_is_that_of_the_next_larger_batch(batch: int, share: float) -> None:
    assert _corpus({"duplicate_share": {"16": 0.1, "32": 0.2, "64": 0.3}}, batch_size=batch).duplicate_share == share
