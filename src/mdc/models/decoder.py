"""Text transformer: the captioners' decoder and, without cross-attention, CLIP's text encoder.

Each layer is self-attention → cross-attention to the visual tokens → one MLP, pre-norm (paper, section 4.1; CapPa).
Keys and values of the cross-attention are the encoder's tokens after its final norm. The decoder does not see the time
step (paper, section 3.2: time-independent parameterisation), unless it is ``timed``.

Shapes: B captions, T tokens, W the decoder's width, M visual tokens, E their width, V tokens that can be predicted.

A ``timed`` decoder has adaptive layer norms (Peebles and Xie, 2023, DiT): a gain and a shift for the time t, any number in
[0, 1], embedded by sinusoids. Untrained, the gain is 1 and the shift 0 at all times, so it equals a decoder that is not timed.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.models.initial import normal_
from mdc.models.packing import Packing, key_mask
from mdc.plan.config.kinds.backbones import Decoder as DecoderShape

_SCALE, _PERIOD = 1000.0, 10000.0  # DiT's: t counts to 1,000, and the slowest sinusoid has this period over 2π


class Time(NamedTuple):
    """Of B captions a vector (B, W) each; ``rows`` (N,) int64 says whose each of N packed tokens is, None if they lie as
    (B, T, W)."""

    vectors: Tensor
    rows: Tensor | None = None


def sinusoids(t: Tensor, width: int) -> Tensor:
    """t (B,) in [0, 1] → (B, width) float64: cosines, then sines, of ⌊width / 2⌋ frequencies each."""
    half = width // 2
    frequencies = torch.exp(-math.log(_PERIOD) * torch.arange(half, device=t.device, dtype=torch.float64) / half)
    angles = _SCALE * t.double()[:, None] * frequencies
    return F.pad(torch.cat([angles.cos(), angles.sin()], dim=1), (0, width % 2))


class TimeEmbedding(nn.Module):
    """t (B,) → (B, W): sinusoids and two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())

    def forward(self, t: Tensor) -> Tensor:
        first: nn.Linear = self.layers[0]  # type: ignore[assignment]
        return self.layers(sinusoids(t, first.in_features).to(first.weight.dtype))


class Norm(nn.LayerNorm):
    """A layer norm that ignores the time."""

    def forward(self, x: Tensor, time: Time | None = None) -> Tensor:
        """x (…, W) → the same shape."""
        return super().forward(x)


class AdaptiveNorm(nn.Module):
    """A layer norm whose gain and shift depend on the time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: Tensor, time: Time) -> Tensor:
        """x (B, T, W), or (N, W) where ``time`` has rows → the same shape."""
        change = self.change(time.vectors)
        gain, shift = (change[:, None] if time.rows is None else change.index_select(0, time.rows)).chunk(2, dim=-1)
        return self.norm(x) * (1 + gain) + shift


class Attention(nn.Module):
    """Queries come from x (B, T, width); keys and values from x itself, or from a memory (B, M, memory_width)."""

    def __init__(self, width: int, heads: int, memory_width: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.cross = memory_width is not None
        if memory_width is None:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.query = nn.Linear(width, width)
            self.key_value = nn.Linear(memory_width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | tuple[Tensor, Tensor] | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        """memory: of cross-attention, or its keys and values from ``remember``; mask: broadcastable to (B, heads, T, keys), True
        where a key may be seen. Returns what x is: (B, T, width), or, with a ``packing``, (N, width)."""
        if self.cross:
            assert memory is not None
            return self.attend(x, *(memory if isinstance(memory, tuple) else self.remember(memory)), packing)
        queries = self.qkv(x) if packing is None else packing.pad(self.qkv(x))
        query, key, value = (self._heads(part) for part in queries.split(x.shape[-1], dim=-1))
        return self._attend(query, key, value, mask, causal, packing)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (B, M, memory_width), (B, heads, M, width / heads) each."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def attend(self, x: Tensor, key: Tensor, value: Tensor, packing: Packing | None = None) -> Tensor:
        """x (B, T, width) or (N, width) against the keys and values of a memory → the same. With k versions of each caption, all
        first ones before all second ones, the memory holds each image once."""
        query = self._heads(self.query(x) if packing is None else packing.pad(self.query(x)))
        images, versions = len(key), len(query) // len(key)
        if versions == 1:
            return self._attend(query, key, value, packing=packing)
        # one long row of queries per image, so that keys and values are not copied
        folded = query.unflatten(0, (versions, images)).permute(1, 2, 0, 3, 4).flatten(2, 3)
        mixed = F.scaled_dot_product_attention(folded, key, value)
        mixed = mixed.unflatten(2, (versions, -1)).permute(2, 0, 3, 1, 4).flatten(3).flatten(0, 1)
        return self.out(mixed if packing is None else packing.unpad(mixed))

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        mixed = mixed.transpose(1, 2).flatten(2)
        return self.out(mixed if packing is None else packing.unpad(mixed))


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
