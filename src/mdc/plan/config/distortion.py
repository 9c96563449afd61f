"""What is done to images that captioners are tested on, in five strengths (docs/claims.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from mdc.plan.config.types import Strict

Kind = Literal["noise", "blur", "jpeg", "cutout"]
STRENGTHS = 5
#: what each strength is. Noise: standard deviation, as a share of the range of intensities; blur: standard deviation, in pixels
#: of an image whose shorter side has 224; JPEG: quality; these three are of ImageNet-C (Hendrycks and Dietterich, 2019). Cut-out:
#: the share of the image under one square (after DeVries and Taylor, 2017; the shares are decided here).
LEVELS: dict[Kind, tuple[float, ...]] = {
    "noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "blur": (1.0, 2.0, 3.0, 4.0, 6.0),
    "jpeg": (25, 18, 15, 10, 7),
    "cutout": (0.05, 0.1, 0.2, 0.3, 0.4),
}
LABELS: dict[Kind, str] = {"noise": "Gaussian noise", "blur": "Gaussian blur", "jpeg": "JPEG", "cutout": "cut-out"}


class Distortion(Strict):
    """One kind at one strength, 1 the weakest."""

    kind: Kind
    strength: Annotated[int, Field(ge=1, le=STRENGTHS)]

    def at_level(self) -> AtLevel:
        """As a job has it: with what :data:`LEVELS` says of it."""
        return AtLevel(kind=self.kind, strength=self.strength, level=LEVELS[self.kind][self.strength - 1])


class AtLevel(Distortion):
    """The same, with its ``level``, in the unit of its kind (:data:`LEVELS`)."""

    level: float


def expanded(table: Any) -> Any:
    """A ``table`` of captions as params.yaml has it, with one system more for each kind and strength that an entry of ``systems``
    asks for under ``distorted``, on every dataset that the entry captions; what is no such mapping is left for the schema to
    tell of. ValueError if there is a system of such a name already."""
    if not isinstance(table, dict) or not isinstance(systems := table.get("systems"), dict):
        return table
    found: dict[Any, Any] = {}
    derived: dict[Any, list[str]] = {}
    for key, system in systems.items():
        asked = system.get("distorted") if isinstance(system, dict) else None
        if not isinstance(asked, dict):
            found[key] = system
            continue
        plain = {name: value for name, value in system.items() if name != "distorted"}
        found[key] = plain
        for kind, strengths in asked.items():
            for strength in strengths if isinstance(strengths, list) else [strengths]:
                label = f"{plain.get('label')} · {LABELS.get(kind, kind)} {strength}"
                more = {"label": label, "distortion": {"kind": kind, "strength": strength}, "ranked": False}
                name = distorted(key, kind, strength)
                if name in systems or name in found:
                    raise ValueError(f"systems.{key}.distorted: makes a system {name}, and there is one; rename it")
                found[name] = {**plain, **more}
                derived.setdefault(key, []).append(name)
    return {
        **table,
        "systems": found,
        **({"datasets": _with(table["datasets"], derived)} if "datasets" in table else {}),
    }


def _with(datasets: Any, derived: dict[Any, list[str]]) -> Any:
    """``datasets`` that list their systems with those that are derived from them."""
    if not isinstance(datasets, dict):
        return datasets
    found = {}
    for key, dataset in datasets.items():
        listed = dataset.get("systems") if isinstance(dataset, dict) else None
        if isinstance(listed, list):
            more = [name for one in listed if isinstance(one, str) for name in derived.get(one, [])]
            dataset = {**dataset, "systems": [*listed, *more]}
        found[key] = dataset
    return found


def distorted(system: str, kind: str, strength: int) -> str:
    """The key of a system that is shown images with such a distortion."""
    return f"{system}_{kind}_{strength}"
