"""The flat values of a scale, as a file of parameters and a file of the scale hold them, and these two files of such values."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

from mdc.plan.config.layers import extension_files, scale_file
from mdc.plan.config.params import Params
from mdc.plan.config.read import layered
from mdc.plan.config.scale import Scale
from mdc.plan.config.yaml_core import dump_yaml, read_yaml
from mdc.plan.records import write_text

ROOT = Path(__file__).resolve().parents[2]
#: the scales that the repository comes with, mini first; a user's own are not tested
SCALES = [
    "mini",
    "flickr8k",
    "flickr8k-claims",
    "flickr8k-long",
    "flickr8k-neighbours",
    "neighbours",
    "paper",
    "scenes",
]
#: the keys that all scales have in common
SHARED = [key for key in Params.model_fields if key not in Scale.model_fields]


def _left_out() -> dict[str, Any]:
    """The tables and the systems that extensions share, each with null."""
    blocks: dict[str, Any] = {}
    for file in extension_files():
        shared = read_yaml(file).get("shared", {})
        blocks.setdefault("tables", {}).update(dict.fromkeys(shared.get("tables", {})))
        systems = shared.get("captions", {}).get("systems", {})
        blocks.setdefault("captions", {"systems": {}})["systems"].update(dict.fromkeys(systems))
    return blocks


_OF_EXTENSIONS = _left_out()


@cache
def _read(name: str) -> dict[str, Any]:
    return plain(layered(ROOT / "params.yaml", {"scale": name}))


def plain(values: Any) -> Any:
    """A copy of ``values`` that does not know the places of a file."""
    if isinstance(values, dict):
        return {key: plain(inner) for key, inner in values.items()}
    return [plain(inner) for inner in values] if isinstance(values, list) else values


def scale_values(name: str = "mini") -> dict[str, Any]:
    """The values of a scale of the repository: a copy."""
    return copy.deepcopy(_read(name))


def common_values() -> dict[str, Any]:
    """What the parameter file says of every scale, but for the scale's name: a copy."""
    return {key: value for key, value in scale_values().items() if key in SHARED}


def write_params(folder: Path, values: dict[str, Any], **more: Any) -> None:
    """Write flat ``values`` as params.yaml, with ``more`` keys there, and the file of their scale. Both are new files: old ones
    may be hard links. What extensions share is left out, for the values are complete."""
    flat = {key: values[key] for key in SHARED if key in values}
    shared = {**_OF_EXTENSIONS, **more.pop("shared", {})}
    write_text(folder / "params.yaml", dump_yaml({**flat, "shared": shared, **more}))
    file = scale_file(folder / "params.yaml", values["scale"])
    file.parent.mkdir(exist_ok=True)
    write_text(file, dump_yaml({key: value for key, value in values.items() if key not in SHARED}))


def read_params(folder: Path) -> dict[str, Any]:
    """The flat values of the scale that a folder's params.yaml names."""
    return plain(layered(folder / "params.yaml"))
