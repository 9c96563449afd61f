"""The bench of variances on a trained run: sampled scores of its captions against the bound by every mask there is."""

from argparse import Namespace
from pathlib import Path

import pytest
import score_variance


def test_sampled_bounds_of_a_runs_short_captions_are_those_by_enumeration(
    r: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_variance, "_SHORT", 11)
    args = Namespace(
        run=r / "runs/alt/ViT-T-12/mdc/s0", choices=r / "data/choices/relation", samples=256, threads=1, items=8
    )
    found = score_variance.against_enumeration(*score_variance.opened(args, 0), 256)
    assert len(found) >= 5 and max(map(abs, found)) < 4 and sum(z * z for z in found) / len(found) < 3
    assert f"{len(found)} right captions of at most 11 tokens: 256 samples are off by" in capsys.readouterr().out
    assert len(score_variance.sampled_items(args, 0)) == 8
