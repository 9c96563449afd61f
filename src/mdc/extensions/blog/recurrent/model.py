"""The captioner of Show, Attend and Tell (Xu et al., 2015): an LSTM that attends to the image before every word.

Notation is the paper's: annotation vectors a_i are the encoder's visual tokens (section 3.1.1), y_t the words. With h and c the
LSTM's hidden and memory state,

    α_t = softmax_i(w · tanh(W_a a_i + W_h h_{t−1}))                    (equations 4 and 5, f_att)
    ẑ_t = β_t Σ_i α_ti a_i,   β_t = σ(f_β(h_{t−1}))                     (equation 13 and section 4.2.1)
    h_t, c_t = LSTM(E y_{t−1}, h_{t−1}, ẑ_t)                            (equations 1 to 3)
    p(y_t) ∝ exp(L_o(E y_{t−1} + L_h h_t + L_z ẑ_t))                    (equation 7)

and h_0, c_0 are two linear layers of the mean annotation. The paper's dropout is omitted: no method here has any.

Shapes: B captions, T tokens, M visual tokens of width E, W the decoder's width (of words, states and f_att alike), V words.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mdc.models.build import ModelSetup
from mdc.models.cross_entropy import weighted_cross_entropy_sum
from mdc.models.image_text import TokenCaptioner, word_head
from mdc.models.initial import normal_
from mdc.models.memory import Memory
from mdc.models.packing import Packing
from mdc.models.precision import at_least_float32


class State(NamedTuple):
    """h and c, (B, W) each."""

    hidden: Tensor
    cell: Tensor


class SoftAttentionLstm(nn.Module):
    """Token ids to the input of the output layer, E y_{t−1} + L_h h_t + L_z ẑ_t, and to the attention of each step.

    The embedding has V + 1 rows, as in the other captioners; the last, [MASK], is never read here.
    """

    def __init__(self, width: int, vocabulary_size: int, seed: int, memory_width: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary_size + 1, width)
        self.annotation = nn.Linear(memory_width, width, bias=False)  # W_a
        self.scores = nn.Linear(width, 1, bias=False)  # w; softmax needs no bias
        # of h_{t−1} at once: W_h, f_β, and its part of the four gates
        self.recurrent = nn.Linear(width, width + 1 + 4 * width)
        self.gates_of_word = nn.Linear(width, 4 * width, bias=False)
        self.gates_of_context = nn.Linear(memory_width, 4 * width, bias=False)
        self.first_hidden = nn.Linear(memory_width, width)
        self.first_cell = nn.Linear(memory_width, width)
        self.out_hidden = nn.Linear(width, width, bias=False)  # L_h
        self.out_context = nn.Linear(memory_width, width, bias=False)  # L_z
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                nn.init.zeros_(parameter)
            else:
                std = 0.02 if name == "token_embedding.weight" else parameter.shape[1] ** -0.5
                normal_(parameter, std, seed, f"text.{name}")
        with torch.no_grad():  # a gate of the memory that is open in the beginning (Gers et al., 2000)
            self.recurrent.bias[2 * width + 1 : 3 * width + 1] = 1.0

    def remember(self, visual: Tensor) -> tuple[Tensor, Tensor]:
        """Visual tokens (B, M, E) → W_a a_i (B, M, W), and the tokens themselves."""
        return self.annotation(visual), visual

    def start(self, visual: Tensor) -> State:
        """h_0 and c_0 of visual tokens (B, M, E)."""
        mean = visual.mean(dim=1)
        return State(self.first_hidden(mean).tanh(), self.first_cell(mean).tanh())

    def step(self, word: Tensor, state: State, keys: Tensor, visual: Tensor) -> tuple[State, Tensor, Tensor]:
        """One step: the ``gates_of_word`` (B, 4W) of y_{t−1}, the former state, and what is remembered of the images, (B, M, …) →
        the state, ẑ_t (B, E) and α_t (B, M) float32."""
        width = state.hidden.shape[1]
        query, gate, of_hidden = self.recurrent(state.hidden).split([width, 1, 4 * width], dim=1)
        energies = self.scores((keys + query[:, None]).tanh()).squeeze(2)
        attention = at_least_float32(energies).softmax(dim=1)
        context = gate.sigmoid() * torch.bmm(attention[:, None].to(visual.dtype), visual).squeeze(1)
        enter, keep, leave, new = (word + of_hidden + self.gates_of_context(context)).chunk(4, dim=1)
        cell = keep.sigmoid() * state.cell + enter.sigmoid() * new.tanh()
        return State(leave.sigmoid() * cell.tanh(), cell), context, attention

    def read_out(self, words: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        """E y_{t−1}, h_t and ẑ_t (…, W or E) → what the output layer reads, (…, W)."""
        return words + self.out_hidden(hidden) + self.out_context(context)

    def forward(self, tokens: Tensor, keys: Tensor, visual: Tensor) -> tuple[Tensor, Tensor]:
        """tokens (B, T) int64 and what is remembered of their images → (B, T, W), and α (B, T, M) float32. Later tokens do
        not influence earlier ones."""
        words = self.token_embedding(tokens)
        # unbind at once: indexing each place would make the backward pass fill a (B, T, 4W) per place
        gates = self.gates_of_word(words).unbind(dim=1)
        state = self.start(visual)
        hidden, contexts, attentions = [], [], []
        for word in gates:
            state, context, attention = self.step(word, state, keys, visual)
            hidden.append(state.hidden)
            contexts.append(context)
            attentions.append(attention)
        read = self.read_out(words, torch.stack(hidden, dim=1), torch.stack(contexts, dim=1))
        return read, torch.stack(attentions, dim=1)


class RecurrentCaptioner(TokenCaptioner):
    """Of a backbone's ``decoder`` it takes the width alone: there is one LSTM and one attention."""

    text: SoftAttentionLstm

    def __init__(self, setup: ModelSetup) -> None:
        super().__init__(setup.backbone, setup.seed)
        width = setup.backbone.decoder.width
        self.text = SoftAttentionLstm(width, setup.vocabulary_size, setup.seed, self.encoder.width)
        self.head = word_head(width, setup.vocabulary_size, setup.seed)

    def forward(
        self, images: Tensor, inputs: Tensor, packing: Packing, chosen: Tensor, targets: Tensor, weights: Tensor
    ) -> Tensor:
        """(2,) float32: the sum of weight · cross-entropy over ``chosen`` tokens, as of
        :meth:`mdc.models.captioner.Captioner.forward`, and the sum over captions and visual tokens of (1 − Σ_t α_ti)²
        (equation 14), t over the decoding steps."""
        read, attention = self.text(packing.pad(inputs[:, None]).squeeze(2), *self.text.remember(self.visual(images)))
        hidden = packing.unpad(read)
        entropy = weighted_cross_entropy_sum(hidden.index_select(0, chosen), self.head.weight, targets, weights)
        return torch.stack([entropy, unevenness(attention, packing.lengths - 1)])

    def remember(self, visual: Tensor) -> Memory:
        """The memory of I images' visual tokens (I, M, E): one layer of one head."""
        keys, values = self.text.remember(visual)
        return Memory(((keys[:, None], values[:, None]),))

    def hidden_states(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (C, n, T) int64 against ``memory`` of C images → the input of the output layer, (C, n, T, W)."""
        versions = tokens.shape[1]
        keys, visual = (part[:, 0].repeat_interleave(versions, dim=0) for part in memory.layers[0])
        return self.text(tokens.flatten(0, 1), keys, visual)[0].unflatten(0, tokens.shape[:2])

    def attention(self, tokens: Tensor, memory: Memory) -> Tensor:
        """α (C, T, M) of ``tokens`` (C, T) int64 against ``memory`` of C images."""
        return self.text(tokens, *(part[:, 0] for part in memory.layers[0]))[1]


def unevenness(attention: Tensor, steps: Tensor) -> Tensor:
    """Σ over captions and places of (1 − Σ_t α_ti)², a scalar: attention (B, T, M), of which the first ``steps`` (B,) count."""
    counted = torch.arange(attention.shape[1], device=attention.device) < steps[:, None]
    return (1 - (attention * counted[..., None]).sum(dim=1)).square().sum()
