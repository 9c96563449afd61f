"""Reading and complaining: a parameter file in, validated parameters or a line for each problem out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

from mdc.plan.config.caption_fits import check_captioning
from mdc.plan.config.data_fits import check_sources
from mdc.plan.config.encoder_fits import check_encoders
from mdc.plan.config.params import Params
from mdc.plan.config.problems import problems
from mdc.plan.config.references import unresolved
from mdc.plan.config.table_fits import check_tables
from mdc.plan.config.yaml_core import Loader
from mdc.plan.records import UserError

_MOST_BITS = 1024
_MOST_NODES = 100_000  # of a parameter file with its aliases written out; a real one stays far below


def _check(loader: Loader, root: yaml.Node) -> None:
    """Refuse what PyYAML accepts silently: duplicate keys in a mapping, and values without end.

    A key beside a merge key may be one of the merged mapping's: it holds. A few aliases of aliases can expand to billions
    of values, and an alias inside itself for endlessly many.
    """
    sizes: dict[int, int | None] = {}

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            known = sizes[id(node)]
            if known is None:
                raise ConstructorError(None, None, "an alias stands inside of what it names", node.start_mark)
            return known
        sizes[id(node)] = None
        total = 1
        if isinstance(node, yaml.MappingNode):
            seen: set[Any] = set()
            for key_node, value_node in node.value:
                if isinstance(key_node, yaml.ScalarNode):
                    key = loader.construct_object(key_node)
                    if key in seen:
                        raise ConstructorError(None, None, f"duplicate key '{key}'", key_node.start_mark)
                    seen.add(key)
                total += size(key_node) + size(value_node)
        elif isinstance(node, yaml.SequenceNode):
            total += sum(map(size, node.value))
        if total > _MOST_NODES:
            told = f"more than {_MOST_NODES} values with all aliases written out"
            raise ConstructorError(None, None, told, node.start_mark)
        sizes[id(node)] = total
        return total

    size(root)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a parameter file. Raises UserError if it is missing, not YAML, or names a key twice."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid YAML: not UTF-8 ({error.reason})") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str = "params.yaml") -> dict[str, Any]:
    """The text of a parameter file as its values; UserError as ``read_yaml``, which begins with ``source``."""
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is not None:
            _check(loader, node)
        value = None if node is None else loader.construct_document(node)
    except RecursionError:
        raise UserError(f"{source}: not valid YAML: nested too deeply") from None
    except Exception as error:  # besides its own, PyYAML lets many kinds through on odd tags and numbers
        where, what = _told(error, text)
        raise UserError(f"{source}: {where}not valid YAML: {' '.join(what.split())[:300]}") from None
    if not isinstance(value, dict):
        raise UserError(f"{source}: holds no mapping of keys to values")
    return value


def _told(error: Exception, text: str) -> tuple[str, str]:
    """Where and what is wrong. PyYAML's own words say instead that it is in a string."""
    if isinstance(error, ReaderError):
        before = text.partition(chr(error.character))[0]
        return f"line {before.count(chr(10)) + 1}: ", f"the character U+{error.character:04X} may not stand in it"
    if not isinstance(error, yaml.MarkedYAMLError):
        return "", str(error)
    mark = error.problem_mark or error.context_mark
    told = [error.problem or "", error.context or ""]
    if error.context and error.context_mark and mark and error.context_mark.line != mark.line:
        told[-1] += f" that begins in line {error.context_mark.line + 1}"
    return f"line {mark.line + 1}: " if mark else "", ", ".join(filter(None, told))


def overlaid(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The first of ``layers`` with the values of each later one in place of its own, key by key in mappings of mappings."""
    found: dict[str, Any] = {}
    for layer in layers:
        # a copy of each mapping on the way, since by an alias another key may have the same one
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
            found[key] = overlaid(found[key], value) if both else value
    return found


def _refuse_huge(values: Any, source: str) -> None:
    """Python does not write out integers of thousands of digits, and pydantic stumbles where it names one."""
    waiting: list[tuple[str, Any]] = [("", values)]
    seen = 0
    while waiting:
        path, value = waiting.pop()
        seen += 1
        if seen > _MOST_NODES:
            raise UserError(f"{source}: more than {_MOST_NODES} values with all aliases written out")
        if isinstance(value, dict):
            waiting += [(f"{path}.{key}" if isinstance(key, str) else path, inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{number}]", inner) for number, inner in enumerate(value)]
        elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise UserError(
                f"{source}: {path.lstrip('.')[:200]}: a whole number of {value.bit_length()} bits is too large"
            )


def validate(values: dict[str, Any], source: str = "params.yaml") -> Params:
    """Check a whole parameter tree.

    Raises UserError with one line (key, value, what is allowed) for each problem.
    """
    _refuse_huge(values, source)
    try:
        params = Params.model_validate(values)
    except ValidationError as error:
        raise UserError(*(f"{source}: {problem}" for problem in problems(error, values))) from None
    if wrong := unresolved(params) or list(_misfits(params)):
        raise UserError(*(f"{source}: {problem}" for problem in wrong))
    return params


def _misfits(params: Params) -> Iterator[str]:
    """Problems between parts that are valid alone: of each scale the first problem of each kind."""
    for name, scale in params.scales.items():
        for check in (check_sources, check_tables, check_encoders, check_captioning):
            try:
                check(scale, params, f"scales.{name}")
            except ValueError as error:
                yield str(error)


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    """Read and check a parameter file; ``scale`` replaces the file's own choice."""
    values = read_yaml(path)
    if scale is not None:
        values["scale"] = scale
    return validate(values, str(path))
