"""The layers of parameters: those that all scales share, a scale's own file, and the overrides of a call.

``params.yaml`` holds the keys of every scale (``scale``, ``artefacts``, ``protocol``, ``methods``) and, under ``shared``,
default blocks; an extension's own ``params.yaml`` lies under it, with further methods and blocks. ``scales/<name>.yaml`` holds
a scale. Its values override the shared block of each key that it names itself; a shared table applies only if the scale names
that table. In a mapping an entry ``_`` holds its siblings' common values.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdc.plan.config.problems import short
from mdc.plan.config.yaml_core import Placed, PlacedList, dump_yaml
from mdc.plan.records import UserError

#: the entry of a mapping that holds its siblings' common values
COMMON = "_"


def places_of(values: Any) -> dict[Any, str]:
    """Where the keys of a mapping, or the items of a list, stand: empty if no file has them."""
    return getattr(values, "places", {})


def place_of(values: Any, path: str, around: str) -> str:
    """Where the key at ``path`` stands (as ``.data.corpora.alt`` or ``.seeds[0]``), or the nearest key ``around`` it."""
    keys = values if isinstance(values, Mapping) else range(len(values)) if isinstance(values, list) else ()
    names = {f"[{key}]" if isinstance(values, list) else f".{key}": key for key in keys}
    fitting = [name for name in names if re.match(re.escape(name) + r"(?=[.\[]|$)", path)]
    if not fitting:
        return around
    key = names[name := max(fitting, key=len)]
    return place_of(values[key], path[len(name) :], places_of(values).get(key, around))


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any], path: str = "") -> Placed:
    """``above`` merged over ``below``, recursively.

    A mapping with another ``kind`` replaces the one below, and null removes it. UserError for any other value in place of a
    mapping.
    """
    merged = Placed(below, {**places_of(below), **places_of(above)})
    for key, value in above.items():
        under = below.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            other = "kind" in under and under["kind"] != value.get("kind", under["kind"])
            merged[key] = value if other else overlaid(under, value, f"{path}{key}.")
        elif isinstance(under, Mapping) and value is None:
            del merged[key]
        elif isinstance(under, Mapping):
            place = "".join(f"{at}: " for at in [places_of(above).get(key)] if at)
            raise UserError(f"{place}{path}{key} = {short(value)}: must be a mapping; null leaves it out")
        else:
            merged[key] = value
    return merged


def spread(values: Any, path: str = "") -> Any:
    """``values`` with every ``_`` merged below each of its siblings."""
    if isinstance(values, list):
        return PlacedList((spread(item, f"{path}{number}.") for number, item in enumerate(values)), places_of(values))
    if not isinstance(values, Mapping):
        return values
    if (common := values.get(COMMON)) is not None:
        values = overlaid({key: {} if key == COMMON else common for key in values}, values, path)
    inner = {key: spread(value, f"{path}{key}.") for key, value in values.items() if key != COMMON}
    return Placed(inner, places_of(values))


def scale_file(params: str | Path, scale: str) -> Path:
    """The file of a scale, beside the parameter file."""
    return Path(params).parent / "scales" / f"{scale}.yaml"


def extension_files() -> list[Path]:
    """The parameters of extensions, named from the working directory where that holds them."""
    here = Path.cwd()
    files = sorted((Path(__file__).resolve().parents[2] / "extensions").glob("*/params.yaml"))
    return [file.relative_to(here) if file.is_relative_to(here) else file for file in files]


def scales_of(params: str | Path) -> list[str]:
    """The scales that have a file. UserError for a file with another name."""
    files = sorted((Path(params).parent / "scales").glob("[!.]*.y*ml"), key=lambda file: file.stem)
    for file in files:
        if file.suffix != ".yaml" or not is_scale_name(file.stem):
            raise UserError(f"{file}: no name of a scale's file; call it NAME.yaml, NAME as `mdc init` takes it")
    return [file.stem for file in files]


def is_scale_name(name: str) -> bool:
    """Letters, digits, ``_``, ``.`` and ``-``; nothing that YAML, or Snakemake's --config, reads as a number or a boolean."""
    try:
        float(name)
    except ValueError:
        return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)) and dump_yaml(name) == f"{name}\n...\n"
    return False
