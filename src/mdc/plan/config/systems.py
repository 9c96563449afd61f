"""Captioning systems of a scale, and their expansion: sweeps, distorted images, mismatched-image controls."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, WithJsonSchema, model_validator

from mdc.plan.config.kinds.distortion import Distortion
from mdc.plan.config.kinds.known import DISTORTIONS, AnyDistortion
from mdc.plan.config.methods import AnyDecoding, SweptDecoding
from mdc.plan.config.references import MethodName
from mdc.plan.config.types import Name, Strict, Unique, check_reference


class _System(Strict):
    label: str
    method: MethodName
    backbone: Name | None = None
    first_seed: bool = False
    tuned: Name | None = None
    weights: Literal["last", "best"] = "best"
    ranked: bool = True


class CaptionSystem(_System):
    """A row (docs/captioning.md): a ``method``, a finetuning ``tuned`` that the datasets name (None: pretrained only), and its
    decoding.

    ``images: other``: the mismatched-image control, which captions another image of the set. ``backbone``: of its runs, if it is
    not the dataset's. ``first_seed``: only the first seed's run captions, for a table that shows only this seed. ``distortion``:
    applied to its input images.
    """

    decode: AnyDecoding
    images: Literal["own", "other"] = "own"
    distortion: AnyDistortion | None = None

    def policy(self) -> dict[str, Any]:
        """Its policy in a job of captions (:class:`mdc.plan.jobs.model.Policy`)."""
        policy = self.model_dump(mode="json", include={"decode", "images"})
        if self.distortion is not None:
            policy["distortion"] = self.distortion.model_dump(mode="json")
        return policy


class SystemEntry(_System):
    """A system as a scale has it, which expands to one or several:

    - a list for ``decode.guidance`` or ``decode.guide.weight`` is a sweep: a system NAME_VALUE for each value, labelled by the
      label and the value. In lists of systems NAME is short for all of them.
    - ``distorted``: one more for each kind of distortion and each strength, NAME_KIND_STRENGTH, wherever it captions.
    - ``mismatched``: the mismatched-image control NAME_other; for a sweep, of all values or of those listed.
    """

    decode: SweptDecoding
    distorted: Unique[Annotated[str, WithJsonSchema({"enum": list(DISTORTIONS)})]] = Field(default_factory=list)
    mismatched: bool | list[float] = False

    @model_validator(mode="after")
    def _known(self) -> Self:
        for kind in self.distorted:
            check_reference("distorted", kind, DISTORTIONS, "distortion")
        return self


def distorted(system: str, distortion: Distortion) -> str:
    """The key of a system with distorted input images."""
    return f"{system}_{distortion.kind}_{distortion.strength}"


def mismatched_key(system: str) -> str:
    """The key of a system's mismatched-image control."""
    return f"{system}_other"


class Systems(BaseModel):
    """``all``: every system of the expanded entries, the controls last. ``members``: entry → the systems that its name is short
    for in a list. ``captioning``: entry → these and those with distorted images."""

    all: dict[str, CaptionSystem]
    members: dict[str, list[str]]
    captioning: dict[str, list[str]]


def expand(entries: Mapping[str, SystemEntry]) -> Systems:
    """The systems that the ``entries`` of a scale expand to. ValueError if two have the same name."""
    plain, controls = dict[str, CaptionSystem](), dict[str, CaptionSystem]()
    members, captioning = dict[str, list[str]](), dict[str, list[str]]()
    for key, entry in entries.items():
        swept = list(_swept(key, entry))
        members[key] = [name for name, _, _ in swept]
        captioning[key] = list(members[key])
        for name, value, system in swept:
            _add(plain, name, system, key)
            for kind in entry.distorted:
                for distortion in DISTORTIONS[kind].at_all_strengths(kind):
                    label = f"{system.label} · {distortion.in_words} {distortion.strength}"
                    more = {"label": label, "ranked": False, "distortion": distortion}
                    _add(plain, distorted(name, distortion), system.model_copy(update=more), key)
                    captioning[key].append(distorted(name, distortion))
            if entry.mismatched is True or (entry.mismatched and value in entry.mismatched):
                control = system.model_copy(update={"label": f"{system.label} · mismatched image", "images": "other"})
                _add(controls, mismatched_key(name), control, key)
        values = [value for _, value, _ in swept]
        for value in entry.mismatched if isinstance(entry.mismatched, list) else ():
            if value not in values:
                raise ValueError(f"systems.{key}.mismatched: {value:g} is no value of its sweep")
    for name, system in controls.items():
        _add(plain, name, system, name)
    return Systems(all=plain, members=members, captioning=captioning)


def _add(systems: dict[str, CaptionSystem], name: str, system: CaptionSystem, key: str) -> None:
    if name in systems:
        raise ValueError(f"systems.{key}: makes a system {name}, and there is one; rename it")
    systems[name] = system


def _swept(key: str, entry: SystemEntry) -> Iterator[tuple[str, float | None, CaptionSystem]]:
    """(key, value, system) for each system of an entry's sweep; the value is None if there is no sweep."""
    values = entry.model_dump(by_alias=True, exclude={"distorted", "mismatched"}, context="complete")
    decode = values["decode"]
    where, name = (decode, "guidance") if "guidance" in decode else (decode.get("guide") or {}, "weight")
    swept = where.get(name)
    for value in swept if isinstance(swept, list) else [None]:
        label = {} if value is None else {"label": f"{entry.label} {value:g}"}
        if value is not None:
            where[name] = value
        number = "" if value is None else f"_{value:g}".replace(".", "_")
        yield f"{key}{number}", value, CaptionSystem.model_validate({**values, **label})
