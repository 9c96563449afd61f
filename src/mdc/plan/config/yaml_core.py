"""YAML 1.2 (the core schema) by PyYAML, which by itself follows version 1.1. Every key keeps its file and line.

``1e-4`` and ``5e-05`` are numbers, as DVC writes them. Integers are decimal (``010`` is ten), ``0o17`` or ``0x1F``; booleans are
``true`` and ``false``. Version 1.1's other forms are text, and refused where a number or a boolean is needed: ``yes``, ``on``,
``1_000``, ``0b1``, ``1:30``, ``2026-01-01``. So are tags of its types, as ``!!set``. Merge keys (``<<``) still work, since DVC
and editors know them.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.reader import ReaderError

from mdc.plan.records import UserError

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
_MOST_NODES = 100_000  # of a parameter file with its aliases written out; a real one stays far below


class _Places:
    def __init__(self, values: Any = (), places: dict[Any, str] | None = None) -> None:
        super().__init__(values)  # type: ignore[call-arg]
        self.places = places or {}


class Placed(_Places, dict[Any, Any]):
    """A mapping of a file. ``places``: key → ``file:line``."""


class PlacedList(_Places, list[Any]):
    """A list of a file. ``places``: index → ``file:line``."""


_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, if PyYAML was built with it
# Python composes, since libyaml's composer crashes on very deeply nested files
_BASES: Any = (_Parser,) if issubclass(_Parser, Composer) else (Composer, _Parser)


class _Loader(*_BASES):  # type: ignore[misc]
    """Text as values. Refuses what PyYAML accepts silently: duplicate keys in a mapping, and values without end.

    A key beside a merge key may override the merged mapping's. A few nested aliases can expand to billions of values, and an
    alias inside itself is infinite.
    """

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}
    yaml_constructors: ClassVar[dict[Any, Any]] = {
        tag: SafeConstructor.yaml_constructors[tag] for tag in (f"{_TAG}str", None)
    }

    def __init__(self, text: str, source: str) -> None:
        Composer.__init__(self)
        _Parser.__init__(self, text)
        self.source, self.sizes = source, dict[int, int]()

    def compose_node(self, parent: Any, index: Any) -> Any:
        alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) or id(node) in self.sizes:
            return node
        if alias:
            raise ConstructorError(None, None, "an alias is inside of what it names", node.start_mark)
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        inner = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in pairs for part in pair]
        self.sizes[id(node)] = 1 + sum(self.sizes.get(id(part), 1) for part in inner)
        if self.sizes[id(node)] > _MOST_NODES:
            problem = f"more than {_MOST_NODES} values with all aliases written out"
            raise ConstructorError(None, None, problem, node.start_mark)
        names = set()
        for key in (key for key, _ in pairs if isinstance(key, yaml.ScalarNode)):
            if (name := self.construct_object(key)) in names:
                raise ConstructorError(None, None, f"duplicate key '{name}'", key.start_mark)
            names.add(name)
        return node

    def mapping(self, node: Any) -> Iterator[Placed]:
        yield (values := Placed())
        values.update(self.construct_mapping(node))  # after which the node has what it merges, too
        values.places = {self.construct_object(key): self.place(key) for key, _ in node.value}

    def sequence(self, node: Any) -> Iterator[PlacedList]:
        yield (items := PlacedList())
        items.extend(self.construct_sequence(node))
        items.places = {number: self.place(item) for number, item in enumerate(node.value)}

    def scalar(self, node: Any) -> Any:
        text, kind = self.construct_scalar(node), node.tag.removeprefix(_TAG)
        looks, _, value = _SCALARS[kind]
        if not re.fullmatch(looks, text):  # it has the type's tag
            raise ConstructorError(None, None, f"{text[:60]!r} is no {kind}", node.start_mark)
        return value(text)

    def place(self, node: Any) -> str:
        return f"{self.source}:{node.start_mark.line + 1}"


class _Dumper(yaml.SafeDumper):
    """Writes YAML that both versions read alike: text that either would take for another type is quoted."""


_Loader.add_constructor(f"{_TAG}map", _Loader.mapping)
_Loader.add_constructor(f"{_TAG}seq", _Loader.sequence)
_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
_Dumper.add_multi_representer(list, yaml.SafeDumper.represent_list)
for _kind, (_looks, _first, _) in _SCALARS.items():
    _Loader.add_constructor(f"{_TAG}{_kind}", _Loader.scalar)
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"(?:{_looks})\Z"), [*_first, ""])


def dump_yaml(values: Any, **options: Any) -> str:
    """``values`` as YAML in the order that they have; ``options`` are PyYAML's."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**30, **options))


def read_yaml(path: str | Path) -> Placed:
    """Read a parameter file. Raises UserError if it is missing, not YAML, or names a key twice."""
    try:
        return parse_yaml(Path(path).read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid YAML: not UTF-8 ({error.reason})") from None


def parse_yaml(text: str, source: str = "params.yaml") -> Placed:
    """The text of a parameter file as its values; UserError as ``read_yaml``, which begins with ``source``."""
    try:
        value = _Loader(text, source).get_single_data()
    except RecursionError:
        raise UserError(f"{source}: not valid YAML: nested too deeply") from None
    except Exception as error:  # besides its own, PyYAML lets many kinds through on odd tags and numbers
        where, problem = _error_text(error, text)
        raise UserError(f"{source}{where}: not valid YAML: {' '.join(problem.split())[:300]}") from None
    if not isinstance(value, Placed):
        raise UserError(f"{source}: holds no mapping of keys to values")
    return value


def _error_text(error: Exception, text: str) -> tuple[str, str]:
    """(``:line``, what is wrong). PyYAML's own message names a string instead of the file."""
    if isinstance(error, ReaderError):
        line = text.partition(chr(error.character))[0].count("\n") + 1
        return f":{line}", f"the character U+{error.character:04X} is not allowed"
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:
        return "", str(error)
    context = error.context or ""
    if context and error.context_mark and error.context_mark.line != mark.line:
        context += f" that begins in line {error.context_mark.line + 1}"
    return f":{mark.line + 1}", ", ".join(filter(None, (error.problem, context)))
