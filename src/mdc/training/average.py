"""An exponential moving average of a model's weights, which some recipes validate and keep instead of the last weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from mdc.plan.config.pretrain import Average


class AveragedWeights:
    """Updated every ``every`` steps with ``decay``, at most (1 + n) / (10 + n) after n updates, so that the initial weights are
    forgotten (as in TensorFlow's ExponentialMovingAverage). ``average`` None: no average, the model's weights stay."""

    def __init__(self, model: nn.Module, average: Average | None) -> None:
        self._model, self._config = model, average
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()} if average is not None else {}

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """``step``: the number of finished steps."""
        if self._config is None or step % self._config.every:
            return
        number = step // self._config.every
        decay = min(self._config.decay, (1 + number) / (10 + number))
        for name, parameter in self._model.named_parameters():
            self.weights[name].lerp_(parameter, 1 - decay)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """A block in which the model has the average as its weights."""
        own = {name: p.detach().clone() for name, p in self._model.named_parameters() if name in self.weights}
        self._fill(self.weights)
        try:
            yield
        finally:
            self._fill(own)

    def apply(self) -> None:
        """Replace the model's weights by the average."""
        self._fill(self.weights)

    @torch.no_grad()
    def _fill(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._model.named_parameters():
            if name in weights:
                parameter.copy_(weights[name])
