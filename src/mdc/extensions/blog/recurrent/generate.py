"""Decoding of an LSTM by beam search, whose cache is its state."""

import torch
from torch import Tensor

from mdc.diffusion.beam import Next
from mdc.extensions.blog.recurrent.model import RecurrentCaptioner, State
from mdc.methods.autoregressive import generate as autoregressive
from mdc.models.memory import Memory
from mdc.models.precision import autocast


class Writer(autoregressive.Writer):
    model: RecurrentCaptioner  # type: ignore[assignment]

    def following(self, memory: Memory, max_tokens: int) -> Next:
        return Stepwise(self.model, memory, self.precision)


generate = autoregressive.generate


class Stepwise:
    """See :class:`mdc.evaluation.predictors.stepwise.Stepwise`."""

    def __init__(self, model: RecurrentCaptioner, memory: Memory, precision: str) -> None:
        self.model, self.memory, self.precision = model, memory, precision
        self.images = torch.arange(len(memory), device=memory.device)
        self.state: State | None = None  # (I, B, W) each

    @torch.no_grad()
    def __call__(self, images: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        text, beams = self.model.text, tokens.shape[1]
        with autocast(self.memory.device, self.precision):
            previous = self._previous(images, parents)
            keys, visual = (part[:, 0].repeat_interleave(beams, dim=0) for part in self.memory.layers[0])
            word = text.token_embedding(tokens.flatten())
            state = State(*(part.flatten(0, 1) for part in previous)) if previous is not None else text.start(visual)
            state, context, _ = text.step(text.gates_of_word(word), state, keys, visual)
            self.state = State(*(part.unflatten(0, tokens.shape) for part in state))
            logits = self.model.head(text.read_out(word, state.hidden, context))
        return logits.float().log_softmax(dim=-1).view(*tokens.shape, -1)

    def _previous(self, images: Tensor, parents: Tensor) -> State | None:
        """For each beam of the unfinished images the state of its parent; None before the first word."""
        state = self.state
        if len(images) < len(self.images):
            places = torch.searchsorted(self.images, images)
            self.images, self.memory = images, self.memory.of(places)
            state = State(*(part[places] for part in state)) if state is not None else None
        rows = torch.arange(len(images), device=images.device)[:, None]
        return State(*(part[rows, parents] for part in state)) if state is not None else None
