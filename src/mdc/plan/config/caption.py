"""Captioning: finetuning, decoding, and caption lengths."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.references import CorpusName
from mdc.plan.config.types import NonNegative, Positive, Strict, Threads, increasing

#: kind of decoding → its name in messages
DECODINGS = {"unmask": "unmasking", "beam": "beam search", "diffuse": "diffusion"}


class Finetune(Strict):
    """Finetuning of pretrained captioners on a captioning corpus (paper, section 4.2), with its own recipe.

    It starts from their last or best ``weights``, and stops early after ``patience`` validations in a row without a new best.
    ``canvas``: masked models learn where captions end, on canvases of up to this many tokens (docs/captioning.md).
    """

    corpus: CorpusName
    recipe: Recipe
    patience: Positive
    weights: Literal["last", "best"] = "last"
    canvas: Annotated[int, Field(ge=2)] | None = None


class Captioning(Strict):
    """How captions are computed. ``batch_tokens``: tokens per batch, limited by memory. ``processes``: that share a job, one GPU
    each; they change no result."""

    batch_tokens: Annotated[int, Field(ge=128)]
    precision: Literal["fp32", "bf16"]
    processes: Positive
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]


class Guide(Strict):
    """CLIP-guided unmasking (:mod:`mdc.diffusion.guided`): of the ``candidates`` likeliest pairs of a position and a token, the
    one with the highest log p + ``weight`` · cosine of the image and the caption so far, by a CLIP run of the scale."""

    weight: Annotated[float, Field(gt=0, le=1000)]
    candidates: Annotated[int, Field(ge=2, le=64)] = 8


class Unmasking(Strict):
    """Decoding by a masked diffusion model, from a fully masked caption (paper, section 3.2; docs/captioning.md).

    ``lengths`` in BPE tokens, the paper's N'. Of several, each image gets the one with the highest Σ log p /
    length^``length_penalty`` of its tokens when they were unmasked. ``ends``: the model ends its caption itself, on a canvas of
    this one length; it must be finetuned with a canvas. Each step unmasks ``tokens_per_step`` positions, or all whose likeliest
    token has at least the probability ``threshold``. ``temperature``: None is greedy; otherwise tokens are sampled, with
    ``seed``. ``ancestral``: MDLM's ancestral sampling in this many steps, which also samples when a position is unmasked. With a
    ``guide`` each step unmasks one position, greedily.
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
        defaults = {"tokens_per_step": 1, "threshold": None, "ancestral": None, "temperature": None, "ends": False}
        for key, default in defaults.items():
            if self.guide is not None and getattr(self, key) != default:
                raise ValueError(
                    f"guide: shows one place at a step, greedily, in captions of given lengths; leave {key} out"
                )
        return self


class Beam(Strict):
    """Beam search by an autoregressive model with ``num_beams`` beams (1: greedy), for captions of ``min_tokens`` to
    ``max_tokens`` BPE tokens. A caption's score is Σ log p / (number of tokens)^``length_penalty``, EOT counted."""

    kind: Literal["beam"]
    # each beam holds the decoder's keys and values, so a typo could take all memory
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
    """Sampling from a model of mask-and-replace diffusion in ``steps`` steps; None: one for each of its diffusion steps, as in
    the paper (docs/mc-diffusion.md).

    ``policy``: posterior samples from p(x_s | x_t); best_first fixes the most confident positions at each step. ``guidance``: the
    scale s; 1 is none. ``orientation``: s multiplies the full condition (cfg) or the degraded one (as_printed).
    ``condition_mask``: the degradation is drawn per_step, or once per_image. ``seed``: of all draws.
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
    """The maximal number of BPE tokens of a caption by this policy."""
    return policy.lengths[-1] if isinstance(policy, Unmasking) else policy.max_tokens
