"""Read and validate parameter files; errors have one line for each problem."""

import re
from collections.abc import Collection, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.layers import extension_files, overlaid, place_of, places_of, scale_file, scales_of, spread
from mdc.plan.config.params import Params
from mdc.plan.config.problems import problems, short
from mdc.plan.config.references import unresolved
from mdc.plan.config.scale import Scale
from mdc.plan.config.tables import is_free_name
from mdc.plan.config.yaml_core import Placed, dump_yaml, parse_yaml, read_yaml
from mdc.plan.records import UserError, did_you_mean

_SCALAR = r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|true|false|null"


def validate(values: dict[str, Any]) -> Params:
    """Check the merged parameters of a scale. UserError with one line (location, key, value, what is allowed) for each
    problem."""
    try:
        params = Params.model_validate(values)
        wrong = unresolved(params) or list(dict.fromkeys(params.misfits()))
    except ValidationError as error:  # a key that is not known may be why another is missing
        wrong = sorted(problems(error, values), key=lambda message: "no such key" not in message)
    if wrong:
        raise UserError(*(_placed(values, problem) for problem in wrong))
    return params


def _placed(values: dict[str, Any], problem: str) -> str:
    """A ``problem`` after the location of the key that it begins with."""
    key = re.split(r": | = ", problem, maxsplit=1)[0]
    return f"{place_of(values, f'.{key}', places_of(values).get('', 'params.yaml'))}: {problem}"


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    """The parameters of a scale. ``scale`` replaces the file's own choice."""
    return validate(layered(path, {"scale": scale} if scale is not None else {}, option="--scale"))


def layered(path: str | Path, *above: str | Path | dict[str, Any], option: str = "--config") -> Placed:
    """The merged values of a scale before they are checked. ``above``: overriding files or command-line values, the last one
    topmost; ``option``: the command-line option of such values. UserError if a file cannot be read, or if a key is in the wrong
    file."""
    whole = overlaid({"methods": {}, "shared": {}}, read_yaml(path))
    for file in extension_files():
        beside = overlaid({"methods": {}, "shared": {}}, read_yaml(file))
        methods = beside["methods"]
        whole = overlaid({**beside, "methods": {}}, whole)
        whole["methods"] = overlaid(whole["methods"], _named(methods, methods.keys() - whole["methods"].keys()))
    tops = [_typed(source, option) if isinstance(source, dict) else read_yaml(source) for source in above]
    chosen = next((top for top in reversed(tops) if "scale" in top), whole)
    scale, scales = chosen.get("scale"), scales_of(path)
    if scale not in scales:
        problem = f"scale = {short(scale)}: no file scales/{scale}.yaml{did_you_mean(scale, scales)}"
        said = "scale: this key is missing" if scale is None else problem
        raise UserError(f"{chosen.places.get('scale', path)}: {said}; allowed: {', '.join(scales) or 'none'}")
    own = overlaid({"methods": {}}, read_yaml(file := scale_file(path, scale)))
    shared = overlaid({key: {} for key in whole.get("shared", ())}, whole.pop("shared", {}), "shared.")
    if wrong := list(_misplaced(whole, own, shared)):
        raise UserError(*wrong)
    blocks = _named(shared, own)
    if isinstance(own.get("tables"), dict) and "tables" in blocks:
        blocks["tables"] = _named(blocks["tables"], own["tables"])
    values = spread(reduce(overlaid, [blocks, own, *tops], whole))
    values.places[""] = str(file)
    return values


def _typed(value: Any, option: str) -> Any:
    """``value`` of the command line with its numbers and booleans parsed: within braces Snakemake leaves them as text."""
    if isinstance(value, dict):
        return Placed({key: _typed(inner, option) for key, inner in value.items()}, dict.fromkeys(value, option))
    if isinstance(value, list):
        return [_typed(inner, option) for inner in value]
    return parse_yaml(f"value: {value}", option)["value"] if re.fullmatch(_SCALAR, str(value)) else value


def _named(values: Placed, names: Collection[str]) -> Placed:
    """The entries of a mapping that have these ``names``."""
    kept = [name for name in values if name in names]
    return Placed({name: values[name] for name in kept}, {name: values.places[name] for name in kept})


def _misplaced(whole: Placed, own: Placed, shared: Placed) -> Iterator[str]:
    """A line for each key in the wrong file, and for each shared block or table that no scale can name."""
    blocks, methods, tables = Scale.model_fields, own.get("methods", {}), shared.get("tables", {})
    for key in own:
        if key == "shared" or (key in Params.model_fields and key not in blocks and key != "methods"):
            yield f"{own.places[key]}: {key}: applies to all scales; it belongs into the parameter file alone"
    for key in whole:
        if key in blocks:
            yield f"{whole.places[key]}: {key}: is a scale's; put it into the scale's file, or under shared"
    for key in methods:
        if key in whole.get("methods", ()):
            yield f"{methods.places[key]}: methods.{key}: is in the parameter file, too; give it another name"
    for key in shared:
        if key not in blocks:
            said = f"no block of a scale is called so; allowed: {', '.join(blocks)}{did_you_mean(key, blocks)}"
            yield f"{shared.places[key]}: shared.{key}: {said}"
    for key in tables:
        if key not in ARTEFACTS and not is_free_name(str(key)):
            said = f"no table or figure is called so{did_you_mean(key, ARTEFACTS)}"
            yield f"{tables.places[key]}: shared.tables.{key}: {said}"


def expanded(values: Placed) -> str:
    """All parameters of a scale as YAML, a line for each value, followed by its ``file:line``, or ``default`` if no file sets
    it."""
    params = validate(values)
    complete = params.complete()
    for name, artefact in params.tables.artefacts.items():
        if name not in ARTEFACTS:
            complete["tables"][name] = {"kind": artefact.kind, "title": artefact.title, **complete["tables"][name]}
    return "".join(f"{line}\n" for line in _lines(complete, values, ""))


def _lines(complete: dict[str, Any], values: Any, indent: str) -> Iterator[str]:
    for key, value in complete.items():
        name = dump_yaml([key], default_flow_style=True).strip()[1:-1]
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, values.get(key) if isinstance(values, dict) else None, f"{indent}  ")
        else:
            shown = dump_yaml([value], default_flow_style=True).strip()[1:-1]
            yield f"{indent}{name}: {shown}  # {places_of(values).get(key, 'default')}"
