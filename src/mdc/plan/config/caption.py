"""Captioning: how runs are finetuned for it, how captions are written, and how long they are."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.references import CorpusName
from mdc.plan.config.types import NonNegative, Positive, Strict, Threads, increasing

#: family of objectives → the kind of writing that its models have; those of other families write no captions
DECODING_OF = {"masked": "unmask", "autoregressive": "beam", "recurrent": "beam", "mask_and_replace": "diffuse"}
#: kind of writing → what messages call it
DECODINGS = {"unmask": "unmasking", "beam": "beam search", "diffuse": "diffusion"}


class Finetune(Strict):
    """How pretrained captioners go on with a captioning corpus (paper, section 4.2), with a recipe of its own.

    They start from their last or best ``weights``, and stop after ``patience`` validations in a row of which none was the best
    so far. ``canvas``: masked models learn where captions end, on canvases of up to so many tokens (docs/captioning.md).
    """

    corpus: CorpusName
    recipe: Recipe
    patience: Positive
    weights: Literal["last", "best"] = "last"
    canvas: Annotated[int, Field(ge=2)] | None = None


class Captioning(Strict):
    """How captions are computed. ``batch_tokens``: at a time, a matter of memory. ``processes``: that share a job, one GPU
    each; they change no result."""

    batch_tokens: Annotated[int, Field(ge=128)]
    precision: Literal["fp32", "bf16"]
    processes: Positive
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]


class Guide(Strict):
    """A CLIP run of the scale has a say in which piece is shown (:mod:`mdc.diffusion.guided`): of the ``candidates`` likeliest
    pairs of a place and a piece the one with the highest log p + ``weight`` · cosine of the image and the caption so far."""

    weight: Annotated[float, Field(gt=0, le=1000)]
    candidates: Annotated[int, Field(ge=2, le=64)] = 8


class Unmasking(Strict):
    """A masked diffusion model writes from a fully masked caption (paper, section 3.2; docs/captioning.md).

    ``lengths`` in BPE tokens, the paper's N'. Of several, each image gets its own: that with the highest Σ log p /
    length^``length_penalty`` of the tokens as they were shown. ``ends``: the model ends its caption itself, on a canvas of that
    one length; it has to be finetuned with a canvas. At a step ``tokens_per_step`` places are shown, or all whose likeliest token
    has at least the probability ``threshold``. ``temperature`` None is greedy; with one, the token of a place that is shown is
    drawn, with ``seed``. ``ancestral``: MDLM's ancestral sampling in so many steps, which draws when each place is shown too.
    With a ``guide`` one place is shown at a step, greedily.
    """

    kind: Literal["unmask"]
    lengths: Annotated[list[Positive], Field(min_length=1), AfterValidator(increasing)]
    ends: bool = False
    tokens_per_step: Positive = 1
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    temperature: Annotated[float, Field(gt=0, le=100)] | None = None
    ancestral: Annotated[int, Field(ge=1, le=100_000)] | None = None
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0
    seed: NonNegative = 0
    guide: Guide | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.threshold is not None and self.tokens_per_step != 1:
            raise ValueError(
                "tokens_per_step and threshold are two ways to show several places at a step; give one of them"
            )
        if self.ancestral is not None and (self.threshold is not None or self.tokens_per_step != 1):
            raise ValueError(
                "ancestral: chance says which places are shown at a step; leave tokens_per_step and threshold out"
            )
        if self.ancestral is not None and self.temperature is None:
            raise ValueError("ancestral: draws what it shows; give a temperature, as MDLM's is temperature: 1.0")
        if self.ends and len(self.lengths) > 1:
            raise ValueError(f"a model that ends its captions itself has one canvas, not {len(self.lengths)} lengths")
        others = {"tokens_per_step": 1, "threshold": None, "ancestral": None, "temperature": None, "ends": False}
        for key, plain in others.items():
            if self.guide is not None and getattr(self, key) != plain:
                raise ValueError(
                    f"guide: shows one place at a step, greedily, in captions of given lengths; leave {key} out"
                )
        return self


class Beam(Strict):
    """An autoregressive model searches with ``num_beams`` beams, 1 is greedy, for captions of ``min_tokens`` to ``max_tokens``
    BPE tokens.

    A caption's score is Σ log p / (its tokens)^``length_penalty``, EOT counted.
    """

    kind: Literal["beam"]
    # each holds the decoder's keys and values, so a slip would take all memory
    num_beams: Annotated[int, Field(ge=1, le=256)]
    min_tokens: Positive = 1
    max_tokens: Positive
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}")
        return self


class Diffusing(Strict):
    """A model of mask-and-replace diffusion undoes it in ``steps`` sampling steps, None: one for each of its own steps, as the
    paper does (docs/mc-diffusion.md).

    ``policy`` posterior draws from p(x_s | x_t); best_first shows, at each step, the most confident places, and keeps them.
    ``guidance``: the scale s; 1 is none. ``orientation``: whether s stands at the whole condition (cfg), or at what is left of it
    (as_printed). ``condition_mask``: what is lost of the condition is drawn per_step, or once per_image. ``seed`` draws.
    """

    kind: Literal["diffuse"]
    steps: Positive | None = None
    policy: Literal["posterior", "best_first"] = "posterior"
    guidance: Annotated[float, Field(ge=0, le=100)] = 1.0
    orientation: Literal["cfg", "as_printed"] = "cfg"
    condition_mask: Literal["per_step", "per_image"] = "per_step"
    seed: NonNegative = 0


Decoding = Annotated[Unmasking | Beam | Diffusing, Field(discriminator="kind")]


def longest(policy: Unmasking | Beam) -> int:
    """The most BPE tokens that a caption of this policy can have."""
    return policy.lengths[-1] if isinstance(policy, Unmasking) else policy.max_tokens
