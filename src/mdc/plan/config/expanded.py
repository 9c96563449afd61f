"""All parameters of a scale with every default, and where each value is set (``mdc config --expanded``)."""

from collections.abc import Iterator
from typing import Any

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.layers import Places
from mdc.plan.config.params import Params
from mdc.plan.config.yaml_core import dump_yaml


def expanded(params: Params, places: Places) -> str:
    """YAML, one line per value, each followed by ``file:line``, or ``default`` where no file sets it."""
    values = params.complete()
    for name, artefact in params.tables.artefacts.items():
        if name not in ARTEFACTS:
            values["tables"][name] = {"kind": artefact.kind, "title": artefact.title, **values["tables"][name]}
    return "".join(f"{line}\n" for line in _lines(values, places, "", ""))


def _lines(values: dict[str, Any], places: Places, path: str, indent: str) -> Iterator[str]:
    for key, value in values.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(value, dict) and value:
            yield f"{indent}{_plain(key)}:"
            yield from _lines(value, places, here, f"{indent}  ")
        else:
            yield f"{indent}{_plain(key)}: {_plain(value)}  # {places.exactly(here) or 'default'}"


def _plain(value: Any) -> str:
    """One line of YAML."""
    return dump_yaml([value], default_flow_style=True).strip()[1:-1]
