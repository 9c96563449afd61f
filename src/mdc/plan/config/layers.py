"""The layers of parameters: those that all scales share, a scale's own file, and the overrides of a call.

``params.yaml`` holds the keys of every scale (``scale``, ``artefacts``, ``protocol``, ``methods``) and, under ``shared``, default
blocks. ``scales/<name>.yaml`` holds a scale. Its values override the shared block of each key that it names itself; a shared
table applies only if the scale names that table. In a mapping an entry ``_`` holds its siblings' common values.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from mdc.plan.config.problems import short
from mdc.plan.config.yaml_core import Loader, dump_yaml
from mdc.plan.records import UserError

Values = dict[str, Any]
#: the entry of a mapping that holds its siblings' common values
COMMON = "_"
#: the block whose entries a scale names one by one
TABLES = "tables"


class Overwritten(ValueError):
    """A value where a mapping is needed. ``path``: the keys that lead to it."""

    def __init__(self, path: tuple[str, ...], value: Any) -> None:
        super().__init__(f"{'.'.join(path)} = {short(value)}: must be a mapping; null leaves it out")
        self.path = path


def overlaid(*layers: Mapping[str, Any]) -> Values:
    """``layers`` merged recursively; later ones override earlier ones.

    A mapping with another ``kind`` replaces the earlier mapping, and null removes it. Raises Overwritten for any other value in
    place of a mapping.
    """
    merged: Values = {}
    for layer in layers:
        merged = _over(merged, layer, ())
    return merged


def _over(below: Mapping[str, Any], above: Mapping[str, Any], path: tuple[str, ...]) -> Values:
    if "kind" in below and below["kind"] != above.get("kind", below["kind"]):
        return dict(above)
    merged = dict(below)
    for key, value in above.items():
        under = below.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = _over(under, value, (*path, str(key)))
        elif isinstance(under, Mapping) and value is None:
            del merged[key]
        elif isinstance(under, Mapping):
            raise Overwritten((*path, str(key)), value)
        else:
            merged[key] = value
    return merged


def spread(values: Any, path: tuple[str, ...] = ()) -> Any:
    """``values`` with every ``_`` merged below each of its siblings."""
    if isinstance(values, list):
        return [spread(item, (*path, str(number))) for number, item in enumerate(values)]
    if not isinstance(values, Mapping):
        return values
    common = values.get(COMMON)
    if not isinstance(common, Mapping | None):
        raise Overwritten((*path, COMMON), common)
    result = {}
    for key, value in values.items():
        here = (*path, str(key))
        if key == COMMON or (value is None and common is not None):  # null leaves it out
            continue
        if common is not None:
            if not isinstance(value, Mapping):
                raise Overwritten(here, value)
            value = _over(common, value, here)
        result[key] = spread(value, here)
    return result


def with_shared(shared: Mapping[str, Any], scale: Mapping[str, Any]) -> Values:
    """A ``scale`` with the ``shared`` blocks of the keys, and of the tables, that it names."""
    blocks = {key: block for key, block in shared.items() if key in scale}
    tables, own = blocks.get(TABLES), scale.get(TABLES)
    if isinstance(tables, Mapping) and isinstance(own, Mapping):
        blocks[TABLES] = {name: table for name, table in tables.items() if name in own}
    return overlaid(blocks, scale)


class Places:
    """The location of each key. ``layers``: (file or option, its text, the keys below which its values are), the topmost first.
    ``main``: the file that is named for a key that no layer has, by default the first. ``named``: the blocks of the scale; other
    shared blocks are ignored."""

    def __init__(
        self, layers: list[tuple[str, str, tuple[str, ...]]], main: str = "", named: Collection[str] | None = None
    ) -> None:
        self._layers, self._main, self._named = layers, main or layers[0][0], named
        self._roots: list[tuple[str, yaml.Node | None]] | None = None

    def find(self, path: str) -> str:
        """``file:line`` of the key at ``path`` (as ``data.corpora.alt`` or ``seeds[0]``), or of its nearest parent."""
        return self._nearest(path)[0]

    def exactly(self, path: str) -> str | None:
        """``file:line`` of the key at ``path`` itself; None if no file has it."""
        place, depth = self._nearest(path)
        return place if depth == len(path) else None

    def _nearest(self, path: str) -> tuple[str, int]:
        if self._roots is None:
            self._roots = [(file, _below(_composed(text), keys)) for file, text, keys in self._layers]
        place, depth = self._main, 0
        for (file, root), (_, _, keys) in zip(self._roots, self._layers, strict=True):
            if keys and self._named is not None and re.split(r"[.\[]", path, maxsplit=1)[0] not in self._named:
                continue
            for reached, line in _ways(root, path.replace("[", ".[")):
                if reached > depth:
                    place, depth = file if file.startswith("--") else f"{file}:{line}", reached
        return place, depth


def _composed(text: str) -> yaml.Node | None:
    return Loader(text).get_single_node()


def _below(node: yaml.Node | None, keys: tuple[str, ...]) -> yaml.Node | None:
    for key in keys:
        node = next((value for name, value in _pairs(node) if name.value == key), None)
    return node


def _pairs(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """The keys of a mapping, its own before those that it merges (``<<``)."""
    if not isinstance(node, yaml.MappingNode):
        return []
    own = [(key, value) for key, value in node.value if key.value != "<<"]
    merged = [value for key, value in node.value if key.value == "<<"]
    merged = [part for value in merged for part in (value.value if isinstance(value, yaml.SequenceNode) else [value])]
    return own + [pair for part in merged for pair in _pairs(part)]


def _ways(node: yaml.Node | None, path: str, reached: int = 0) -> Iterator[tuple[int, int]]:
    """(matched characters of ``path``, line) along each way through a file; an entry's own keys before ``_``."""
    for wanted in (False, True):
        for key, value in _pairs(node):
            name = str(key.value)
            if wanted and name == COMMON and path:
                rest = path.partition(".")[2]
                step = len(path) - len(rest)
                yield from _ways(value, rest, reached + step)
            elif not wanted and (path == name or path.startswith(f"{name}.")):
                yield reached + len(name), key.start_mark.line + 1
                yield from _ways(value, path[len(name) + 1 :], reached + len(name) + 1)
    if isinstance(node, yaml.SequenceNode) and path.startswith("["):
        number, _, rest = path[1:].partition("]")
        if number.isdigit() and int(number) < len(node.value):
            item = node.value[int(number)]
            step = len(path) - len(rest.lstrip("."))
            yield reached + len(number) + 2, item.start_mark.line + 1
            yield from _ways(item, rest.lstrip("."), reached + step)


def scale_file(params: str | Path, scale: str) -> Path:
    """The file of a scale, beside the parameter file."""
    return Path(params).parent / "scales" / f"{scale}.yaml"


def scales_of(params: str | Path) -> list[str]:
    """The scales that have a file. UserError for a file with another name."""
    names = []
    files = (Path(params).parent / "scales").glob("[!.]*.y*ml")
    for file in sorted(files, key=lambda file: file.stem):
        if file.suffix != ".yaml" or not is_scale_name(file.stem):
            raise UserError(f"{file}: no name of a scale's file; call it NAME.yaml, NAME as `mdc init` takes it")
        names.append(file.stem)
    return names


def is_scale_name(name: str) -> bool:
    """Letters, digits, ``_``, ``.`` and ``-``; nothing that YAML, or Snakemake's --config, reads as a number or a boolean."""
    try:
        float(name)
    except ValueError:
        return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)) and dump_yaml(name) == f"{name}\n...\n"
    return False
