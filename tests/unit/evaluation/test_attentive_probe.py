"""The attentive probe against a plain module of torch.nn, trained by autograd and torch.optim.AdamW."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import toy
from torch import Tensor, nn

from mdc.evaluation import attentive_probe
from mdc.evaluation.attentive_probe import Fitting, heads_of, initial, predict, trained
from mdc.plan.config.kinds.backbones import FrozenTokens
from mdc.plan.config.kinds.heads import Attentive
from mdc.plan.config.params import ProtocolProbe
from mdc.plan.jobs.model import ProbeJob
from mdc.plan.records import UserError

HOW = Fitting(classes=3, heads=2, epochs=3, batch_size=16, weight_decay=0.0, seed=4)


class Plain(nn.Module):
    """What the page says, with every key and value made."""

    def __init__(self, width: int, classes: int, heads: int, start: dict[str, Tensor]) -> None:
        super().__init__()
        self.norm, self.query = nn.LayerNorm(width), nn.Parameter(start["query"][None, None].clone())
        self.attention, self.head = nn.MultiheadAttention(width, heads, batch_first=True), nn.Linear(width, classes)
        values = {
            "norm.weight": start["gain"],
            "norm.bias": start["shift"],
            "query": start["query"][None, None],
            "attention.in_proj_weight": torch.cat([start[f"w_{name}"] for name in ("query", "key", "value")]),
            "attention.in_proj_bias": torch.cat([start["b_query"], torch.zeros(width), start["b_value"]]),
            "attention.out_proj.weight": start["w_out"],
            "attention.out_proj.bias": start["b_out"],
            "head.weight": start["weight"],
            "head.bias": start["bias"],
        }
        self.load_state_dict(values)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(tokens)
        found, _ = self.attention(self.query.expand(len(x), -1, -1), x, x, need_weights=False)
        out: Tensor = self.head(found[:, 0])
        return out


def problem(count: int = 70, width: int = 12, several: bool = False) -> tuple[Tensor, Tensor]:
    """Tokens of which one, anywhere, tells the class; or of several labels."""
    draws = torch.Generator().manual_seed(0)
    tokens, classes = torch.randn(count, 5, width, generator=draws), torch.randint(0, 3, (count,), generator=draws)
    place = torch.randint(0, 5, (count,), generator=draws)
    tokens[torch.arange(count), place] += 3 * torch.randn(3, width, generator=draws)[classes]
    targets = torch.randint(0, 2, (count, 3), generator=draws).float() if several else classes
    return tokens.half(), targets


def plainly(tokens: Tensor, targets: Tensor, rows: Tensor, lr: float, how: Fitting) -> Plain:
    """The plain module after the same steps, in float64."""
    draws = torch.Generator().manual_seed(how.seed)
    module = Plain(tokens.shape[-1], how.classes, how.heads, initial(tokens.shape[-1], how.classes, draws)).double()
    optimiser = torch.optim.AdamW(module.parameters(), lr=lr, weight_decay=how.weight_decay)
    steps = how.epochs * math.ceil(len(rows) / how.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: (1 + math.cos(math.pi * step / steps)) / 2)
    for _ in range(how.epochs):
        for batch in rows[torch.randperm(len(rows), generator=draws)].split(how.batch_size):
            found, wanted = module(tokens[batch].double()), targets[batch]
            if targets.ndim == 1:
                loss = F.cross_entropy(found, wanted)
            else:
                loss = F.binary_cross_entropy_with_logits(found, wanted.double(), reduction="none").sum(1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return module


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_is_a_plain_module_trained_the_same_way(several: bool, weight_decay: float) -> None:
    """Weights and logits of each learning rate, though all are trained at once and with fewer products."""
    how, (tokens, targets) = replace(HOW, weight_decay=weight_decay), problem(several=several)
    rows, lrs = torch.arange(3, 70), [1e-3, 1e-2]
    found = trained(tokens, targets, rows, lrs, how, dtype=torch.float64)
    scores = attentive_probe.logits(found, tokens, how.heads)
    for n, lr in enumerate(lrs):
        peer = plainly(tokens, targets, rows, lr, how)
        width = tokens.shape[-1]
        weights = peer.attention.in_proj_weight.split(width)
        biases = peer.attention.in_proj_bias.split(width)
        expected = {
            **{"gain": peer.norm.weight, "shift": peer.norm.bias, "query": peer.query[0, 0]},
            **dict(zip(("w_query", "w_key", "w_value"), weights, strict=True)),
            **{"b_query": biases[0], "b_value": biases[2]},
            **{"w_out": peer.attention.out_proj.weight, "b_out": peer.attention.out_proj.bias},
            **{"weight": peer.head.weight, "bias": peer.head.bias},
        }
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert torch.allclose(found[name][n], value, rtol=0, atol=1e-6), name
        assert torch.allclose(scores[n], peer(tokens.double()), rtol=0, atol=1e-6)
    assert not torch.allclose(scores[0], scores[1], atol=1e-2), "the learning rate decides something here"


def test_in_single_precision_it_is_the_same_probe() -> None:
    tokens, targets = problem()
    found = predict(trained(tokens, targets, torch.arange(70), [1e-3], HOW), tokens, HOW)[0]
    peer = plainly(tokens, targets, torch.arange(70), 1e-3, HOW)
    assert torch.allclose(found.double(), peer(tokens.double()), rtol=0, atol=1e-4)


HEAD = Attentive(label="", kind="attentive", lr=[1e-5, 1e-2], epochs=8, batch_size=16, held_out=0.1)


def job(**changes: Any) -> ProbeJob:
    return toy.probe_job(head=HEAD, **changes)


def fit(job: ProbeJob, targets: Tensor) -> tuple[Tensor, dict[str, Any]]:
    tokens, _ = problem(300)
    return attentive_probe.fit(job, tokens[:200], targets[:200], 3, tokens[200:], torch.device("cpu"))


#: the training items that are held out
HELD_OUT = torch.randperm(200, generator=torch.Generator().manual_seed(0))[:20]


def test_the_rate_that_is_best_on_held_out_items_is_fitted_again_on_all() -> None:
    tokens, targets = problem(300)
    scores, told = fit(job(protocol=ProtocolProbe(normalise=False, weight_decay=1.0)), targets)
    assert told["lr"] == 1e-2 and told["held_out"][1] > told["held_out"][0]
    how = Fitting(3, heads_of(job()), 8, 16, 1.0, 0)
    again = trained(tokens[:200], targets[:200], torch.arange(200), [1e-2], how)
    assert torch.equal(scores, predict(again, tokens[200:], how)[0])
    assert float((scores.argmax(1) == targets[200:]).float().mean()) > 0.8, "one token tells the class"


def test_held_out_items_are_asked_and_not_trained_on() -> None:
    """So of the three labels that each could have one is right."""
    rates = []
    for shift in range(3):
        _, targets = problem(300)
        targets[HELD_OUT] = (targets[HELD_OUT] + shift) % 3
        rates.append(fit(job(), targets)[1]["held_out"])
    assert torch.tensor(rates).sum(dim=0).tolist() == pytest.approx([100, 100])


def test_held_out_items_without_a_positive_have_no_precision() -> None:
    _, targets = problem(300, several=True)
    targets[HELD_OUT] = 0
    assert fit(job(), targets)[1] == {"lr": HEAD.lr[0], "held_out": [0, 0]}


def test_heads_are_the_encoders_or_of_some_64_channels() -> None:
    assert heads_of(job()) == toy.BACKBONE.heads
    for width, heads in ((8, 1), (96, 1), (192, 3), (1280, 20), (200, 2)):
        frozen = FrozenTokens(job="encoders/x", config_sha256="x", image_size=16, tokens=4, width=width)
        assert heads_of(job(backbone=frozen)) == heads


def test_refusals(tmp_path: Path) -> None:
    tokens, targets = problem(2)
    with pytest.raises(UserError, match="with 1 held out none is left"):
        attentive_probe.fit(job(), tokens[:1], targets[:1], 3, tokens, torch.device("cpu"))
    tokens[0] = torch.inf
    with pytest.raises(UserError, match="not finite in half precision"):
        attentive_probe.fit(job(), tokens, targets, 3, tokens, torch.device("cpu"))
