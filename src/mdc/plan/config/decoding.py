"""Policies of decoding, and how captioners are finetuned and captions computed."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.plan.config.kinds.known import AnyOrder
from mdc.plan.config.types import NonNegative, Positive, SomeUnique, Strict, Threads, increasing


class Captioning(Strict):
    """How captions are computed. ``batch_tokens``: tokens per batch, limited by memory. ``processes``: that share a job, one GPU
    each; they change no result."""

    batch_tokens: Annotated[int, Field(ge=128)]
    precision: Literal["fp32", "bf16"]
    processes: Positive
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]


#: BPE tokens of captions of a masked method for a person, who gets the likeliest (paper, table 3)
_USUAL_LENGTHS = (10, 15, 20)


_Weight = Annotated[float, Field(gt=0, le=1000)]


class Guide(Strict):
    """CLIP-guided unmasking (:mod:`mdc.diffusion.guided`): of the ``candidates`` likeliest pairs of a position and a token, the
    one with the highest log p + ``weight`` · cosine of the image and the caption so far, by a CLIP run of the scale."""

    weight: _Weight
    candidates: Annotated[int, Field(ge=2, le=64)] = 8


class Decoding(Strict):
    """A policy of decoding: what every kind of them has. A method names its own kind."""

    kind: str

    #: its name in messages
    in_words: ClassVar[str] = ""
    #: the options of `mdc caption` that it has, and the values of ``policy``, the default first
    cli_options: ClassVar[tuple[str, ...]] = ()
    cli_policies: ClassVar[tuple[str, ...]] = ()

    @property
    def shown_length(self) -> str:
        """Its cell in the column of this name; – if it has no fixed length."""
        return "–"

    @property
    def shown_as(self) -> str:
        """Its cell in the column Decoding; comparisons are fair between equal ones."""
        return self.in_words

    @property
    def is_guided(self) -> bool:
        """Whether a CLIP guides it."""
        return False

    @property
    def module_names(self) -> list[str]:
        """What it loads by name."""
        return []

    @property
    def longest(self) -> int | None:
        """The maximal number of BPE tokens of a caption; None if the context is its only limit."""
        return None

    @classmethod
    @abstractmethod
    def usual(cls, method: Any, room: int, canvas: int | None, options: Mapping[str, Any]) -> Self:
        """The policy that a person gets who names these ``options`` alone: ``room`` tokens fit, and ``canvas`` is that of the
        run's finetuning."""


class Unmasking(Decoding):
    """Decoding by a masked diffusion model, from a fully masked caption (paper, section 3.2; docs/captioning.md).

    ``lengths`` in BPE tokens, the paper's N'. Of several, each image gets the one with the highest Σ log p /
    length^``length_penalty`` of its tokens when they were unmasked. ``ends``: the model ends its caption itself, on a canvas of
    this one length; it must be finetuned with a canvas. Each step unmasks ``tokens_per_step`` positions, or all whose likeliest
    token has at least the probability ``threshold``. ``temperature``: None is greedy; otherwise tokens are sampled, with
    ``seed``. ``ancestral``: MDLM's ancestral sampling in this many steps, which also samples when a position is unmasked. With a
    ``guide`` each step unmasks one position, greedily. ``order``: another than by confidence, of an extension.
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
    order: AnyOrder | None = None

    in_words = "unmasking"
    cli_options = ("length", "tokens_per_step", "threshold", "temperature")
    cli_policies = ("unmask",)

    @property
    def shown_length(self) -> str:
        if self.ends:
            return "free"
        return str(self.lengths[0]) if len(self.lengths) == 1 else f"best of {len(self.lengths)}"

    @property
    def shown_as(self) -> str:
        words = ["greedy" if self.temperature is None else f"drawn at {self.temperature:g}"]
        if self.guide is not None:
            words.append("guided")
        if self.ancestral is not None:
            words.append(f"ancestral in {self.ancestral} steps")
        elif self.threshold is not None:
            words.append(f"all of p ≥ {self.threshold:g}")
        elif self.order is not None:
            words.append(self.order.in_words)
        elif self.tokens_per_step > 1:
            at_once = self.tokens_per_step >= self.lengths[-1]
            words.append("all at once" if at_once else f"{self.tokens_per_step} tokens per step")
        return ", ".join(words if len(self.lengths) == 1 else [*words, f"best of {len(self.lengths)}"])

    @property
    def is_guided(self) -> bool:
        return self.guide is not None

    @property
    def module_names(self) -> list[str]:
        return [self.order.module] if self.order is not None else []

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    @classmethod
    def usual(cls, method: Any, room: int, canvas: int | None, options: Mapping[str, Any]) -> Self:
        length, values = (
            options.get("length"),
            {key: value for key, value in options.items() if key not in ("length", "policy")},
        )
        if canvas is not None and length is None:
            return cls(kind="unmask", lengths=[min(canvas, room + 1)], ends=True, **values)
        lengths = [length] if length is not None else [usual for usual in _USUAL_LENGTHS if usual <= room] or [room]
        return cls(kind="unmask", lengths=lengths, **values)

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
        if self.order is not None and (self.ancestral or self.threshold is not None or self.tokens_per_step != 1):
            raise ValueError(
                "order: says which places are shown at a step; leave ancestral, threshold and tokens_per_step out"
            )
        if self.ends and len(self.lengths) > 1:
            raise ValueError(f"a model that ends its captions itself has one canvas, not {len(self.lengths)} lengths")
        defaults = {"tokens_per_step": 1, "threshold": None, "ancestral": None, "temperature": None, "ends": False}
        defaults |= {"order": None}
        for key, default in defaults.items():
            if self.guide is not None and getattr(self, key) != default:
                raise ValueError(
                    f"guide: shows one place at a step, greedily, in captions of given lengths; leave {key} out"
                )
        return self


class SweptGuide(Guide):
    """A guide with one ``weight`` or several, one system for each."""

    weight: _Weight | SomeUnique[_Weight]  # type: ignore[assignment]


class SweptUnmasking(Unmasking):
    guide: SweptGuide | None = None


class Beam(Decoding):
    """Beam search by an autoregressive model with ``num_beams`` beams (1: greedy), for captions of ``min_tokens`` to
    ``max_tokens`` BPE tokens. A caption's score is Σ log p / (number of tokens)^``length_penalty``, EOT counted."""

    kind: Literal["beam"]
    # each beam holds the decoder's keys and values, so a typo could take all memory
    num_beams: Annotated[int, Field(ge=1, le=256)]
    min_tokens: Positive = 1
    max_tokens: Positive
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0

    in_words = "beam search"
    cli_options = ("length", "beam")
    cli_policies = ("beam",)

    @property
    def shown_length(self) -> str:
        return str(self.max_tokens) if self.min_tokens == self.max_tokens else "–"

    @property
    def shown_as(self) -> str:
        return "greedy" if self.num_beams == 1 else f"beam {self.num_beams}"

    @property
    def longest(self) -> int:
        return self.max_tokens

    @classmethod
    def usual(cls, method: Any, room: int, canvas: int | None, options: Mapping[str, Any]) -> Self:
        length = options.get("length")
        return cls(kind="beam", num_beams=options.get("beam", 6), min_tokens=length or 1, max_tokens=length or room)

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}")
        return self
