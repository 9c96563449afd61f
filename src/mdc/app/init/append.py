"""One more scale in params.yaml: text at its end, so that every byte that stands there stays, comments included."""

from __future__ import annotations

import textwrap
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from mdc.plan.config.read import load, parse_yaml, read_yaml, validate
from mdc.plan.config.types import Name
from mdc.plan.config.yaml_core import Loader, dump_yaml
from mdc.plan.records import UserError, atomic_path


def scale_name(params: str | Path, name: str) -> None:
    """UserError if ``name`` is none for a new scale of the file ``params``, or if that file is not good as it is."""
    try:
        TypeAdapter(Name).validate_python(name)
        plain = dump_yaml(name) == f"{name}\n...\n" and not _is_number(name)  # no reader needs it in quotes
    except ValidationError:
        plain = False
    if not plain:  # 12, on, null, 2026-01-01: --config scale=12 would be a number too
        raise UserError(
            f"NAME = {name!r}: no name of a scale; allowed: letters, digits, '_', '.' and '-', nothing that YAML reads as a "
            "number, a date or a truth value"
        )
    scales = load(params).scales
    if name in scales:
        raise UserError(
            f"{params}: has a scale {name} already; its scales are {', '.join(scales)}; choose another name"
        )


def _is_number(name: str) -> bool:
    """Whether Python reads a number, as Snakemake does of --config scale=nan."""
    try:
        float(name)
    except ValueError:
        return False
    return True


def append_scale(params: str | Path, name: str, text: str) -> None:
    """Append ``text``, a scale with its key at column 0, to ``scales`` of the file ``params``.

    ``scales`` must be the last key of the file and stand in block style. The result is validated before it is written,
    and the file is replaced at once. UserError otherwise, and the file is as it was.
    """
    place = Path(params).resolve()  # a link to a file stays one
    old = place.read_bytes().decode("utf-8")
    indent = _indent_of_scales(params, old)
    added = ("" if old.endswith("\n") else "\n") + "\n" + textwrap.indent(text, " " * indent)
    new = old + (added.replace("\n", "\r\n") if "\r\n" in old else added)

    before, after = read_yaml(place), parse_yaml(new, str(params))
    scales = after.get("scales")
    if not isinstance(scales, dict) or {k: v for k, v in scales.items() if k != name} != before["scales"]:
        raise UserError(f"{params}: a scale cannot be appended as text; write it there by hand")
    validate({**after, "scale": name}, str(params))
    mode = place.stat().st_mode
    with atomic_path(place) as temporary:
        temporary.write_bytes(new.encode("utf-8"))
    place.chmod(mode)


def _indent_of_scales(params: str | Path, text: str) -> int:
    """At which column the scales' names stand. UserError if no scale can follow at the end of the file."""
    root = yaml.compose(text, Loader=Loader)
    assert isinstance(root, yaml.MappingNode)  # the file has been validated
    key, scales = root.value[-1]
    if key.value != "scales":
        raise UserError(
            f"{params}: its last key is {key.value}; `scales` must be the last, so that a scale can follow it"
        )
    if root.flow_style or scales.flow_style or not isinstance(scales, yaml.MappingNode):
        raise UserError(
            f"{params}: scales stands in {{braces}}; give each scale lines of its own, so that one can follow"
        )
    return int(scales.value[0][0].start_mark.column)
