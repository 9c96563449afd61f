"""The noise schedule and the corruption against their definitions."""

from __future__ import annotations

import pytest
import torch

from mdc.diffusion.schedule import MaskSchedule


def test_weight_is_the_papers_ratio() -> None:
    schedule = MaskSchedule(0.0, 1.0)
    t = torch.linspace(0.01, 1.0, 50, dtype=torch.float64)
    h = 1e-6
    derivative = (schedule.alpha(t + h) - schedule.alpha(t - h)) / (2 * h)
    assert torch.allclose(schedule.alpha_derivative(t), derivative, rtol=1e-6)
    assert torch.allclose(schedule.masked(t), 1 - schedule.alpha(t))
    # equation 5 has a minus sign by way of log p; 1/t by the linear schedule
    assert torch.allclose(schedule.weight(t), 1 / t)
    assert torch.equal(MaskSchedule(0.0, 1.0, inverse_t=False).weight(t), torch.ones_like(t))


@pytest.mark.parametrize(("low", "high"), [(0.5, 1.0), (0.0, 1.0), (0.3, 0.3)])
def test_stratified_draw_has_one_time_in_each_stratum(low: float, high: float) -> None:
    batch = 64
    jitter = torch.rand(batch, generator=torch.Generator().manual_seed(0))
    place = torch.randperm(batch, generator=torch.Generator().manual_seed(1))
    t = MaskSchedule(low, high).draw(jitter, place, batch)
    assert t.min() >= max(low, 1e-3) - 1e-7 and t.max() <= high + 1e-7
    if high > low and low > 0:
        strata = ((t.double() - low) / (high - low) * batch).floor().clamp(max=batch - 1)
        assert torch.equal(strata.to(torch.int64), place)


def test_least_t_bounds_the_weight() -> None:
    schedule = MaskSchedule(0.0, 1.0, least_t=1e-3)
    t = schedule.draw(torch.zeros(4), torch.zeros(4, dtype=torch.int64), 1024)
    assert torch.allclose(schedule.weight(t), torch.full((4,), 1000.0))
