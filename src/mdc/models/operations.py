"""Floating-point operations of a training step, from shapes alone: nothing here looks at a tensor's values.

Counted is what matrices multiply with matrices: linear maps, the convolution that makes patches, attention's two products, the
logits of words and those of a batch's images against its captions. A product of (a, b) with (b, c) has 2·a·b·c operations. The
backward pass has twice those of the forward pass, for a product has two gradients; only of a map whose input nobody
differentiates (pixels, stored tokens) does it have as many as the forward pass.

Not counted is all else, which is little beside it: norms, activations, softmax, the loss, embeddings, the optimiser, sums over
processes, and pictures on their way to the tower. Attention is counted as it is laid out, (B, T) with its padding, also where a
causal kernel leaves half of it out; linear maps see real tokens alone. What a kernel of attention computes again for its
own backward pass is not counted either.
"""

from __future__ import annotations

from typing import NamedTuple

from mdc.models.reads import OBJECTS
from mdc.plan.config.backbones import Backbone, OnTokens, ResNet
from mdc.plan.config.backbones import Decoder as DecoderShape


class Operations(NamedTuple):
    """``needed``: what a step asks for; ``again``: what is computed a second time, so that less has to be kept."""

    needed: int = 0
    again: int = 0

    def plus(self, other: Operations) -> Operations:
        return Operations(self.needed + other.needed, self.again + other.again)


class Texts(NamedTuple):
    """Captions as a text transformer sees them: ``captions`` B, ``tokens`` N real ones, ``length`` T places of each in
    attention."""

    captions: int
    tokens: int
    length: int


class Pass(NamedTuple):
    """A forward pass: ``all`` its operations; of these, those ``of_layers`` that a layer computes again if it keeps its input
    alone; and those ``at_input``, of maps whose input nobody differentiates."""

    all: int = 0
    of_layers: int = 0
    at_input: int = 0

    def plus(self, other: Pass) -> Pass:
        return Pass(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def step(self, recompute: bool, embedded_before: bool = False) -> Operations:
        """Of forward and backward pass. ``recompute``: layers are computed again in the backward pass.
        ``embedded_before``: the forward pass was made once before, without a graph."""
        again = (self.of_layers if recompute else 0) + (self.all if embedded_before else 0)
        return Operations(3 * self.all - self.at_input, again)


def linear(rows: int, inputs: int, outputs: int) -> int:
    """``rows`` vectors through a map."""
    return 2 * rows * inputs * outputs


def attention(captions: int, queries: int, keys: int, width: int) -> int:
    """The products of queries with keys, and of their weights with values, of all heads together ``width`` wide."""
    return 4 * captions * queries * keys * width


def image_encoder(backbone: Backbone | OnTokens, images: int) -> Pass:
    """The tower of ``images`` images, or, on a frozen encoder, the map of its stored tokens: the encoder does not run."""
    if isinstance(backbone, OnTokens):
        found = linear(images * backbone.frozen.tokens, backbone.frozen.width, backbone.decoder.width)
        return Pass(found, 0, found)
    if isinstance(backbone, ResNet):
        return residual_network(backbone, images)
    width, patches = backbone.width, visual_tokens(backbone)
    tokens = images * (patches + 1)  # and [CLS]
    cut = linear(images * patches, 3 * backbone.patch_size**2, width)
    mixed = linear(tokens, width, 4 * width) + attention(images, patches + 1, patches + 1, width)
    inner = linear(tokens, width, 4 * width)
    return Pass(cut + backbone.layers * (mixed + 2 * inner), backbone.layers * (mixed + inner), cut)


def residual_network(backbone: ResNet, images: int) -> Pass:
    """Its convolutions (He et al., 2016, figures 3 and 5): of a stem, and of blocks, whose first brings its input to the stage's
    size and width by one of 1 × 1, unless it has them."""
    side = backbone.image_size // 2
    stem = _convolution(images, side, 7, 3, 64)
    layers, channels, side = 0, 64, side // 2
    for stage, blocks in enumerate(backbone.blocks):
        inner = 64 * 2**stage
        for number in range(blocks):
            before, side = side, side // (2 if stage and not number else 1)
            width = inner * (4 if backbone.block == "bottleneck" else 1)
            if backbone.block == "basic":
                layers += _convolution(images, side, 3, channels, inner) + _convolution(images, side, 3, inner, inner)
            else:
                layers += _convolution(images, before, 1, channels, inner) + _convolution(images, side, 3, inner, inner)
                layers += _convolution(images, side, 1, inner, width)
            if before != side or channels != width:
                layers += _convolution(images, side, 1, channels, width)
            channels = width
    return Pass(stem + layers, layers, stem)


def _convolution(images: int, side: int, kernel: int, inputs: int, outputs: int) -> int:
    """Of ``side``² places that come out."""
    return linear(images * side**2, kernel**2 * inputs, outputs)


def visual_tokens(backbone: Backbone | OnTokens) -> int:
    """How many tokens of an image an encoder makes, without [CLS]."""
    if isinstance(backbone, OnTokens):
        return backbone.frozen.tokens
    return (backbone.image_size // backbone.patch_size) ** 2


def read_tokens(backbone: Backbone | OnTokens) -> int:
    """How many of them, or of what is made of them, a decoder reads."""
    cells = {"mean": 1, "cls": 1, "grid_2": 4, "grid_3": 9, "objects": 1 + OBJECTS}
    reads = backbone.reads if isinstance(backbone, Backbone) else "patches"
    return cells.get(reads, visual_tokens(backbone))


def text_transformer(shape: DecoderShape, texts: Texts, memory: tuple[int, int] | None = None) -> Pass:
    """The layers of a text transformer; ``memory``: how many visual tokens an image has, and how wide they are."""
    layer = text_layer(shape.width, texts, memory[0] if memory is not None else 0)
    if memory is not None:
        layer = layer.plus(_same(linear(texts.captions * memory[0], memory[1], 2 * shape.width)))
    return Pass(*(shape.layers * part for part in layer))


def text_layer(width: int, texts: Texts, seen: int) -> Pass:
    """One of them, without keys and values of the ``seen`` visual tokens of an image, if it sees any."""
    mixed = linear(texts.tokens, width, 4 * width) + attention(texts.captions, texts.length, texts.length, width)
    if seen:
        mixed += linear(texts.tokens, width, 2 * width) + attention(texts.captions, texts.length, seen, width)
    inner = linear(texts.tokens, width, 4 * width)
    # a layer that is computed again stops before its last map, whose result nobody asks for
    return Pass(mixed + 2 * inner, mixed + inner)


def timed_transformer(shape: DecoderShape, texts: Texts, memory: tuple[int, int]) -> Pass:
    """The layers of mask-and-replace diffusion's decoder: two norms are told the time; keys and values are made before."""
    told = 2 * linear(texts.captions, shape.width, 2 * shape.width)
    layer = text_layer(shape.width, texts, memory[0]).plus(_same(told))
    read = linear(texts.captions * memory[0], memory[1], 2 * shape.width)
    return Pass(*(shape.layers * part for part in layer.plus(Pass(read))))


def captioner(backbone: Backbone | OnTokens, vocabulary: int, texts: Texts, predicted: int) -> Pass:
    """A captioner whose head predicts ``predicted`` of the tokens, among ``vocabulary``."""
    return (
        image_encoder(backbone, texts.captions)
        .plus(text_transformer(backbone.decoder, texts, _memory(backbone)))
        .plus(Pass(linear(predicted, backbone.decoder.width, vocabulary)))
    )


def recurrent_captioner(backbone: Backbone | OnTokens, vocabulary: int, texts: Texts, predicted: int) -> Pass:
    """A captioner with an LSTM and soft attention, which computes all T places of a batch's captions."""
    tokens, seen = _memory(backbone)
    width, steps = backbone.decoder.width, texts.captions * texts.length
    read = linear(texts.captions * tokens, seen, width) + 2 * linear(texts.captions, seen, width)
    gates = linear(steps, width, 4 * width) + linear(steps, width, 5 * width + 1) + linear(steps, seen, 4 * width)
    # w · tanh(…) of each place, and the places' weighted sum
    attended = linear(steps * tokens, width, 1) + linear(steps, tokens, seen)
    spoken = linear(steps, width, width) + linear(steps, seen, width) + linear(predicted, width, vocabulary)
    return image_encoder(backbone, texts.captions).plus(Pass(read + gates + attended + spoken))


def diffusion_captioner(backbone: Backbone | OnTokens, classes: int, texts: Texts, learns_input: bool) -> Pass:
    """A captioner of mask-and-replace diffusion, whose head predicts all places. ``learns_input``: what stands in the place of
    lost stored tokens is learnt."""
    images = image_encoder(backbone, texts.captions)
    return (
        (images._replace(at_input=0) if learns_input else images)
        .plus(timed_transformer(backbone.decoder, texts, _memory(backbone)))
        .plus(Pass(linear(texts.tokens, backbone.decoder.width, classes)))
    )


def two_towers(backbone: Backbone, texts: Texts) -> Pass:
    """CLIP's towers and their projections."""
    projected = linear(texts.captions, backbone.width + backbone.decoder.width, backbone.embed_dim)
    return image_encoder(backbone, texts.captions).plus(text_transformer(backbone.decoder, texts)).plus(Pass(projected))


def contrasted(backbone: Backbone, own: int, everyones: int) -> Pass:
    """CLIP's logits of the ``own`` pairs of a process against ``everyones``; alone, the transpose is for nothing."""
    return Pass((1 if own == everyones else 2) * linear(own, backbone.embed_dim, everyones))


def _memory(backbone: Backbone | OnTokens) -> tuple[int, int]:
    width = backbone.width if isinstance(backbone, Backbone) else backbone.decoder.width
    return read_tokens(backbone), width


def _same(operations: int) -> Pass:
    return Pass(operations, operations)
