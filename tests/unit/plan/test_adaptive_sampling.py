"""How the bench of variances decides between two options by looking at more and more masks: its looks, and its level."""

import re

import numpy as np
import pytest
import score_variance
import torch
from torch import Tensor

from mdc.diffusion.likelihood import mask_counts
from mdc.evaluation.predictors.caption_scores import GROUPS, Draws

SAMPLES, LENGTH, ITEMS = 256, 6, 200


def _items(better: float, seed: int) -> list[list[tuple[Tensor, Tensor]]]:
    """Items of two options whose tokens are as likely as one another's, but for ``better`` nats per token; shared masks."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.tensor([-0.1, -6.0, -0.3, -4.0, -1.0, -0.2])
    found = []
    for number in range(ITEMS):
        draws = Draws(f"item {number}", seed, SAMPLES, 8)
        where = draws.masks(LENGTH, lambda points: mask_counts(points, LENGTH), SAMPLES // GROUPS)
        share = where.sum(dim=-1, keepdim=True) / LENGTH
        options = []
        for more in (better, 0.0):
            noise = torch.randn(where.shape, generator=generator)
            options.append((torch.where(where, base * (1 + 0.3 * share) + noise + more, 0.0), where))
        found.append(options)
    return found


def _told(better: float, capsys: pytest.CaptureFixture[str]) -> tuple[int, int, int]:
    """The mean of the samples that were needed, items that stayed undecided, and decisions that other masks contradict."""
    score_variance.adaptive(_items(better, 0), _items(better, 1), SAMPLES)
    said = capsys.readouterr().out
    numbers = re.search(r": (\d+) of 256 samples in the mean.* (\d+) of 200 items undecided .*contradict (\d+) ", said)
    assert numbers, said
    needed, undecided, wrong = map(int, numbers.groups())
    return needed, undecided, wrong


def test_options_are_told_apart_no_oftener_than_the_level_says_and_a_clear_difference_soon(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At most one in twenty over all looks together; without a level that is split over them it would be far more."""
    needed, undecided, _ = _told(0.0, capsys)
    allowed = 0.05 * ITEMS + 3 * np.sqrt(0.05 * 0.95 * ITEMS)
    assert ITEMS - undecided <= allowed and needed > 0.9 * SAMPLES
    assert _told(3.0, capsys) == (16, 0, 0)
    needed, undecided, wrong = _told(0.3, capsys)
    assert 16 < needed < SAMPLES and undecided < ITEMS / 10 and wrong < ITEMS / 20
