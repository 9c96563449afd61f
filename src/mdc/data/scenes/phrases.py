"""How the grammar says the classes of a labelled set of the built-in world, where it has words for them."""

from __future__ import annotations

from mdc.data.scenes.language import article, plural
from mdc.data.scenes.world import PROBE_CLASSES


def class_phrases(task: str) -> list[str] | None:
    """A phrase for each class of a probe (a key of `PROBE_CLASSES`), in their order; None where the language has none.

    A phrase holds for the scenes of its class and for no others of the probe.
    """
    classes = PROBE_CLASSES[task]
    match task:
        case "shape":
            return [f"{article(name)} {name}" for name in classes]
        case "colour":
            return [f"{article(name)} {name} shape" for name in classes]
        case "count":
            return [f"{name} {'shape' if name == 'one' else plural('shape')}" for name in classes]
        case "relation" | "corners":
            return [f"a red shape {name} a blue shape" for name in classes]
        case "axis":
            return [f"two shapes {name}" for name in classes]
    return None
