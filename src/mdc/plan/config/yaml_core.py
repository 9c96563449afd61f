"""YAML 1.2 (the core schema) by PyYAML, which by itself follows version 1.1.

``1e-4`` and ``5e-05`` are numbers, as DVC writes them. Integers are decimal (``010`` is ten), ``0o17`` or ``0x1F``; booleans are
``true`` and ``false``. Version 1.1's other forms are text, and refused where a number or a boolean is needed: ``yes``, ``on``,
``1_000``, ``0b1``, ``1:30``, ``2026-01-01``. So are tags of its types, as ``!!set``. Merge keys (``<<``) still work, since DVC
and editors know them.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

import yaml
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.resolver import Resolver

_TAG = "tag:yaml.org,2002:"
#: type → what it looks like, the characters that it may begin with, its value
_SCALARS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", "~nN", lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF", lambda text: text.lower() == "true"),
    "int": (
        r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
        "-+0123456789",
        lambda text: int(text, 0 if text[:2] in ("0o", "0x") else 10),
    ),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
        lambda text: float(re.sub(r"\.(?=[inIN])", "", text)),
    ),
    "merge": (r"<<", "<", str),
}

try:
    from yaml._yaml import CParser
except ImportError:  # PyYAML was built without libyaml
    _Parsing: Any = yaml.SafeLoader
else:

    class _Parsing(Composer, CParser, SafeConstructor, Resolver):  # type: ignore[no-redef]
        """libyaml parses; Python composes, since libyaml's composer crashes on very deeply nested files."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)


class Loader(_Parsing):
    """Reads text into nodes and values. The last of duplicate keys wins; :func:`mdc.plan.config.read.parse_yaml` refuses them."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}
    yaml_constructors: ClassVar[dict[Any, Any]] = {
        tag: SafeConstructor.yaml_constructors[tag] for tag in (f"{_TAG}map", f"{_TAG}seq", f"{_TAG}str", None)
    }


class _Dumper(yaml.SafeDumper):
    """Writes YAML that both versions read alike: text that either would take for another type is quoted."""


def _constructor(kind: str, pattern: re.Pattern[str], value: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    def construct(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        if not pattern.match(text):  # it has the type's tag
            raise ConstructorError(None, None, f"{text[:60]!r} is no {kind}", node.start_mark)
        return value(text)

    return construct


for _kind, (_looks, _first, _value) in _SCALARS.items():
    _pattern = re.compile(rf"(?:{_looks})\Z")
    _begins = [*_first, ""] if _kind == "null" else list(_first)
    Loader.add_implicit_resolver(f"{_TAG}{_kind}", _pattern, _begins)
    Loader.add_constructor(f"{_TAG}{_kind}", _constructor(_kind, _pattern, _value))
    _Dumper.add_implicit_resolver(f"{_TAG}{_kind}", _pattern, _begins)


def dump_yaml(values: Any, **options: Any) -> str:
    """``values`` as YAML in the order that they have; ``options`` are PyYAML's."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**30, **options))
