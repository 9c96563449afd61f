"""Text transformer: the captioners' decoder and, without cross-attention, CLIP's text encoder.

Each layer is self-attention → cross-attention to the visual tokens → one MLP, pre-norm (paper, section 4.1; CapPa).
Keys and values of the cross-attention are the encoder's tokens after its final norm. The decoder does not see the time
step (paper, section 3.2: time-independent parameterisation), unless it is ``timed``.

Shapes: B captions, T tokens, W the decoder's width, M visual tokens, E their width, V tokens that can be predicted.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.models.adaptive_norm import AdaptiveNorm, Norm, Time, TimeEmbedding
from mdc.models.attention import Attention
from mdc.models.initial import normal_
from mdc.models.packing import Packing, key_mask
from mdc.plan.config.backbones import Decoder as DecoderShape


class Block(nn.Module):
    """``norm``: builds the norms before the two attentions, which take the time."""

    def __init__(
        self, width: int, heads: int, memory_width: int | None, norm: Callable[[int], nn.Module] = Norm
    ) -> None:
        super().__init__()
        self.norm_self = norm(width)
        self.self_attention = Attention(width, heads)
        self.cross = memory_width is not None
        if memory_width is not None:
            self.norm_cross = norm(width)
            self.cross_attention = Attention(width, heads, memory_width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | tuple[Tensor, Tensor] | None,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
        time: Time | Tensor | None = None,
    ) -> Tensor:
        x = x + self.self_attention(self.norm_self(x, time), mask=mask, causal=causal, packing=packing)
        if self.cross:
            x = x + self.cross_attention(self.norm_cross(x, time), memory, packing=packing)
        return x + self.mlp(self.norm_mlp(x))


def initialise(text: nn.Module, shape: DecoderShape, seed: int, name_of_text: str = "text") -> None:
    """The initial weights of a text transformer: OpenCLIP's text-tower standard deviations; gains 1, biases 0."""
    fan = shape.width**-0.5
    residual = fan * (2 * shape.layers) ** -0.5
    for name, parameter in text.named_parameters():
        if name == "token_embedding.weight":
            std = 0.02
        elif name == "positional_embedding":
            std = 0.01
        elif parameter.ndim == 1:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
            continue
        elif name.endswith(("attention.out.weight", "mlp.2.weight")):
            std = residual
        elif name.endswith("mlp.0.weight"):
            std = (2 * shape.width) ** -0.5
        else:
            std = parameter.shape[1] ** -0.5
        normal_(parameter, std, seed, f"{name_of_text}.{name}")


class TextTransformer(nn.Module):
    """Token ids to hidden states after the final norm.

    ``vocabulary_size`` V counts the tokens that can be predicted. The embedding has V + 1 rows; the last is for [MASK].
    Every method has that row, so that all of them start from the same weights.

    ``timed``: it is conditioned on the time t of the masks, by default the masked share. ``name`` seeds its initial weights.
    """

    def __init__(
        self,
        shape: DecoderShape,
        vocabulary_size: int,
        context_length: int,
        causal: bool,
        seed: int,
        memory_width: int | None = None,
        timed: bool = False,
        name: str = "text",
    ) -> None:
        super().__init__()
        self.causal = causal
        self.time_embedding = TimeEmbedding(shape.width) if timed else None
        self.token_embedding = nn.Embedding(vocabulary_size + 1, shape.width)
        self.positional_embedding = nn.Parameter(torch.empty(context_length, shape.width))
        norm = AdaptiveNorm if timed else Norm
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads, memory_width, norm) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        initialise(self, shape, seed, name)
        for part in self.modules():
            if isinstance(part, AdaptiveNorm):
                nn.init.zeros_(part.change.weight)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        memory: Tensor | None = None,
        packing: Packing | None = None,
        *,
        parallel: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """tokens (B, T) int64, of which the first ``lengths`` (B,) are real, or all; memory (B, M, E) → hidden states (B, T, W).

        The padding changes no hidden state of a real token. With a ``packing``: tokens (N,), those alone → (N, W).

        ``parallel`` (B,) bool: the packed captions in which a causal decoder sees every token but the last one.
        ``times`` (B,): of a timed decoder with a packing.
        """
        x = self.embedded(tokens, packing)
        # The padding is on the right, where causal attention never looks, so no mask is needed.
        mask, causal = None, self.causal
        if parallel is not None:
            assert packing is not None
            mask, causal = _causal_but(parallel, packing), False
        elif not causal and packing is not None:
            mask = packing.mask()
        elif not causal and lengths is not None:
            mask = key_mask(lengths, tokens.shape[1])
        return self.layers(x, memory, mask, causal, packing, self.time(tokens, lengths, packing, times))

    def embedded(self, tokens: Tensor, packing: Packing | None = None) -> Tensor:
        """Embeddings of tokens (B, T), or (N,) with a ``packing``: (…, W)."""
        if packing is None:
            return self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
        return self.token_embedding(tokens) + F.embedding(packing.positions(), self.positional_embedding)

    def layers(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        causal: bool,
        packing: Packing | None = None,
        time: Time | None = None,
    ) -> Tensor:
        """All layers and the final norm on embeddings ``x``; the same shape."""
        for block in self.blocks:
            x = block(x, memory, mask, causal, packing, time)
        return self.norm(x)

    def time(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        packing: Packing | None = None,
        times: Tensor | None = None,
    ) -> Time | None:
        """The time condition of the norms; None if the decoder is not timed. Without ``times`` t is the share of a caption's L
        tokens that is [MASK]."""
        if self.time_embedding is None:
            return None
        if packing is not None:
            assert times is not None
            return Time(self.time_embedding(times), packing.places // packing.length)
        if times is None:
            of = tokens.shape[1] - 1 if lengths is None else lengths - 1
            times = (tokens == self.token_embedding.num_embeddings - 1).sum(dim=1) / of
        return Time(self.time_embedding(times))


def _causal_but(parallel: Tensor, packing: Packing) -> Tensor:
    """Which places see which, (B, 1, T, T) bool: in ``parallel`` (B,) captions all but the last token, in others the
    place itself and those before it."""
    places = torch.arange(packing.length, device=parallel.device)
    before = (places[None, :] <= places[:, None]).expand(len(parallel), -1, -1)
    all_but_last = (places < packing.lengths[:, None] - 1)[:, None, :].expand_as(before)
    return torch.where(parallel[:, None, None], all_but_last, before)[:, None]
