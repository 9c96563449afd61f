"""Systems of captioning as a scale has them, and those that they stand for: sweeps, worse images, other images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mdc.plan.config.caption import Beam, Decoding, Diffusing, Guide, Unmasking
from mdc.plan.config.distortion import LABELS, STRENGTHS, Distortion, Kind
from mdc.plan.config.references import BackboneName, MethodName
from mdc.plan.config.types import Name, SomeUnique, Strict, Unique


class _System(Strict):
    label: str
    method: MethodName
    backbone: BackboneName | None = None
    first_seed: bool = False
    tuned: Name | None = None
    weights: Literal["last", "best"] = "best"
    ranked: bool = True


class CaptionSystem(_System):
    """A row (docs/captioning.md): a ``method`` after a finetuning that the datasets name (None: as it was pretrained), and how
    it writes.

    ``images: other`` shows it another image than the one that it should caption, which is what language alone can do.
    ``backbone``: of its runs, if it is not the dataset's. ``first_seed``: only the first seed's run captions, for a table that
    shows that seed alone. ``distortion``: what is done to the images before it sees them.
    """

    decode: Decoding
    images: Literal["own", "other"] = "own"
    distortion: Distortion | None = None

    @property
    def length(self) -> str:
        """What the column of this name says, which follows from how it decodes; – if no length is given to it."""
        if isinstance(self.decode, Unmasking):
            if self.decode.ends:
                return "free"
            lengths = self.decode.lengths
            return str(lengths[0]) if len(lengths) == 1 else f"best of {len(lengths)}"
        return (
            str(self.decode.max_tokens)
            if isinstance(self.decode, Beam) and self.decode.min_tokens == self.decode.max_tokens
            else "–"
        )

    @property
    def decoding(self) -> str:
        """How its words are chosen, as its column says it: comparisons are fair between equal ones."""
        decode = self.decode
        if isinstance(decode, Beam):
            return "greedy" if decode.num_beams == 1 else f"beam {decode.num_beams}"
        if isinstance(decode, Diffusing):
            return "drawn" if decode.policy == "posterior" else "best first"
        told = ["greedy" if decode.temperature is None else f"drawn at {decode.temperature:g}"]
        if decode.guide is not None:
            told.append("guided")
        if decode.ancestral is not None:
            told.append(f"ancestral in {decode.ancestral} steps")
        elif decode.threshold is not None:
            told.append(f"all of p ≥ {decode.threshold:g}")
        elif decode.tokens_per_step > 1:
            told.append(
                "all at once"
                if decode.tokens_per_step >= decode.lengths[-1]
                else f"{decode.tokens_per_step} tokens per step"
            )
        return ", ".join(told if len(decode.lengths) == 1 else [*told, f"best of {len(decode.lengths)}"])

    @property
    def guided(self) -> bool:
        """Whether a CLIP has a say in what it writes."""
        return isinstance(self.decode, Unmasking) and self.decode.guide is not None

    def policy(self) -> dict[str, Any]:
        """What a job of captions is told of it (:class:`mdc.plan.jobs.model.Policy`)."""
        found = self.model_dump(mode="json", include={"decode", "images"})
        if self.distortion is not None:
            found["distortion"] = self.distortion.at_level().model_dump(mode="json")
        return found


_Weight = Annotated[float, Field(gt=0, le=1000)]
_Scale = Annotated[float, Field(ge=0, le=100)]


class SweptGuide(Guide):
    """A guide whose ``weight`` may be several, a system each."""

    weight: _Weight | SomeUnique[_Weight]  # type: ignore[assignment]


class SweptUnmasking(Unmasking):
    guide: SweptGuide | None = None


class SweptDiffusing(Diffusing):
    """Diffusion whose ``guidance`` may be several scales, a system each."""

    guidance: _Scale | SomeUnique[_Scale] = 1.0  # type: ignore[assignment]


class AskedSystem(_System):
    """A system as a scale has it. It stands for one, and for more:

    - a list for ``decode.guidance`` or ``decode.guide.weight`` is a sweep: a system for each value, NAME_VALUE, called by the
    label
      and the value. In lists of systems NAME stands for all of them.
    - ``distorted``: one more for each kind of distortion and each strength, NAME_KIND_STRENGTH, wherever it captions.
    - ``mismatched``: the control NAME_other, which is shown another image; of a sweep, of all values or of those listed.
    """

    decode: Annotated[SweptUnmasking | Beam | SweptDiffusing, Field(discriminator="kind")]
    distorted: Unique[Kind] = Field(default_factory=list)
    mismatched: bool | list[float] = False


def distorted(system: str, kind: str, strength: int) -> str:
    """The key of a system that is shown images with such a distortion."""
    return f"{system}_{kind}_{strength}"


def other_image(system: str) -> str:
    """The key of the control of a system, which is shown another image."""
    return f"{system}_other"


class Systems(BaseModel):
    """``all``: every system that entries stand for, the controls last. ``members``: entry → the systems that its name stands for
    in a list. ``captioning``: entry → those and the ones with worse images."""

    all: dict[str, CaptionSystem]
    members: dict[str, list[str]]
    captioning: dict[str, list[str]]


def written_out(entries: Mapping[str, AskedSystem]) -> Systems:
    """What the ``entries`` of a scale stand for. ValueError if two stand for the same name."""
    plain, controls = dict[str, CaptionSystem](), dict[str, CaptionSystem]()
    members, captioning = dict[str, list[str]](), dict[str, list[str]]()
    for key, entry in entries.items():
        swept = list(_swept(key, entry))
        members[key] = [name for name, _, _ in swept]
        captioning[key] = list(members[key])
        for name, value, system in swept:
            _add(plain, name, system, key)
            for kind in entry.distorted:
                for strength in range(1, STRENGTHS + 1):
                    more = {"label": f"{system.label} · {LABELS[kind]} {strength}", "ranked": False}
                    more |= {"distortion": Distortion(kind=kind, strength=strength)}
                    _add(plain, distorted(name, kind, strength), system.model_copy(update=more), key)
                    captioning[key].append(distorted(name, kind, strength))
            if entry.mismatched is True or (entry.mismatched and value in entry.mismatched):
                other = system.model_copy(update={"label": f"{system.label} · mismatched image", "images": "other"})
                _add(controls, other_image(name), other, key)
        values = [value for _, value, _ in swept]
        for one in entry.mismatched if isinstance(entry.mismatched, list) else ():
            if one not in values:
                raise ValueError(f"systems.{key}.mismatched: {one:g} is no value of its sweep")
    for name, system in controls.items():
        _add(plain, name, system, name)
    return Systems(all=plain, members=members, captioning=captioning)


def _add(found: dict[str, CaptionSystem], name: str, system: CaptionSystem, key: str) -> None:
    if name in found:
        raise ValueError(f"systems.{key}: makes a system {name}, and there is one; rename it")
    found[name] = system


def _swept(key: str, entry: AskedSystem) -> Iterator[tuple[str, float | None, CaptionSystem]]:
    """Each system of an entry's sweep: its key, its value (None if there is no sweep), itself."""
    values = entry.model_dump(by_alias=True, exclude={"distorted", "mismatched"}, context="complete")
    decode = values["decode"]
    where, name = (decode, "guidance") if "guidance" in decode else (decode.get("guide") or {}, "weight")
    asked = where.get(name)
    for value in asked if isinstance(asked, list) else [None]:
        told = {} if value is None else {"label": f"{entry.label} {value:g}"}
        if value is not None:
            where[name] = value
        number = "" if value is None else f"_{value:g}".replace(".", "_")
        yield f"{key}{number}", value, CaptionSystem.model_validate({**values, **told})
