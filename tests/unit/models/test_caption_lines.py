"""What ``mdc caption --explain`` says of each piece: when it was written, or that it was not."""

from __future__ import annotations

import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from mdc.evaluation.tell import _line, _text
from mdc.predictors.writing import Written


class _Pieces:
    """Token 0 is "a", 1 is "b" and so on."""

    def piece(self, token: int) -> str:
        return chr(ord("a") + token)

    def text(self, written: Written) -> str:
        return " ".join(map(self.piece, written.pieces))


ONE = Written((0, 1, 2), math.log(0.25) + math.log(0.5), (2, 0, 1), (math.log(0.25), 0.0, math.log(0.5)))


def _said(**more: Any) -> list[str]:
    args = Namespace(**{"explain": True, "fill": None, **more})
    return _text(_line(Path("x.png"), _Pieces(), ONE), args, 1).splitlines()


@pytest.mark.parametrize(("fill", "why"), [(None, "stood there from the start"), ("? b ?", "given")])
def test_a_piece_that_no_step_wrote_has_no_probability(fill: str | None, why: str) -> None:
    """A word that a person gave, or one of the random start of a diffusion that was kept."""
    assert _said(fill=fill) == [
        "a b c",
        f"  step   0  place   2  b  ({why})",
        "  step   1  place   3  probability 0.500  c",
        "  step   2  place   1  probability 0.250  a",
    ]
    pieces = _line(Path("x.png"), _Pieces(), ONE)["pieces"]
    assert [piece["probability"] for piece in pieces] == [pytest.approx(0.25), None, pytest.approx(0.5)]
    assert _said(explain=False) == ["a b c"]
