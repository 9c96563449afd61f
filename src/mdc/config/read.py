"""Reading and complaining: a parameter file in, validated parameters or one line out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from mdc.config.params import Params
from mdc.config.problems import first_problem
from mdc.records import UserError


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; we refuse both."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str | int | float | bool | None) and key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice", key_node.start_mark
                )
            if isinstance(key, str | int | float | bool | None):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


_MOST_BITS = 1024
_MOST_NODES = 100_000  # of a parameter file with its aliases written out; ours has some six hundred


def _refuse_bombs(node: yaml.Node | None) -> None:
    """A few aliases of aliases can stand for billions of values, and an alias inside itself for endlessly many."""
    sizes: dict[int, int | None] = {}

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            known = sizes[id(node)]
            if known is None:
                raise yaml.YAMLError("an alias stands inside of what it names")
            return known
        sizes[id(node)] = None
        inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        total = 1 + (0 if isinstance(node, yaml.ScalarNode) else sum(map(size, inner)))
        if total > _MOST_NODES:
            raise yaml.YAMLError(f"more than {_MOST_NODES} values with all aliases written out")
        sizes[id(node)] = total
        return total

    if node is not None:
        size(node)


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
        loader = _UniqueKeys(text)
        node = loader.get_single_node()
        _refuse_bombs(node)
        value = None if node is None else loader.construct_document(node)
    except RecursionError:
        raise UserError(f"{source}: not valid YAML: nested too deeply") from None
    except Exception as error:  # besides its own, PyYAML lets many kinds through on odd tags and numbers
        raise UserError(f"{source}: not valid YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(value, dict):
        raise UserError(f"{source}: holds no mapping of keys to values")
    return value


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

    Raises UserError with one line (key, value, what is allowed) for the first problem, and how many more there are.
    """
    _refuse_huge(values, source)
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        more = error.error_count() - 1
        also = f" (and {more} more)" if more else ""
        raise UserError(f"{source}: {first_problem(error)}{also}") from None


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    """Read and check a parameter file; ``scale`` replaces the file's own choice."""
    values = read_yaml(path)
    if scale is not None:
        values["scale"] = scale
    return validate(values, str(path))
