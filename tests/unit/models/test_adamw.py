"""AdamW against PyTorch's own class."""

from __future__ import annotations

import torch
from torch import nn

from mdc.training.adamw import AdamW, Group


def _weights() -> list[nn.Parameter]:
    noise = torch.Generator().manual_seed(3)
    return [nn.Parameter(torch.randn(shape, generator=noise)) for shape in ((5, 7), (7,), (3, 2), (4,))]


def test_it_is_pytorchs_adamw_to_the_bit() -> None:
    ours, theirs = _weights(), _weights()
    betas, eps = (0.9, 0.98), 1e-6
    adam = AdamW([Group([ours[0], ours[2]], 0.1), Group([ours[1], ours[3]], 0.0)], 1e-3, betas, eps)
    groups = [
        {"params": [theirs[0], theirs[2]], "weight_decay": 0.1},
        {"params": [theirs[1], theirs[3]], "weight_decay": 0.0},
    ]
    peer = torch.optim.AdamW(groups, lr=1e-3, betas=betas, eps=eps, fused=True)
    noise = torch.Generator().manual_seed(4)
    for step in range(20):
        adam.lr = 1e-3 * (step + 1)
        for group in peer.param_groups:
            group["lr"] = adam.lr
        for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if place == 2 and step < 5:  # learns from its sixth step on only
                continue
            mine.grad = torch.randn(mine.shape, generator=noise)
            other.grad = mine.grad.clone()
        adam.step()
        peer.step()
        adam.zero_grad()
        peer.zero_grad()
        assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True)), step
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is None
        assert {name: value.tolist() for name, value in adam.state[mine].items()} == {
            name: value.tolist() for name, value in peer.state[other].items()
        }
    assert adam.state[ours[2]]["step"].item() == 15
