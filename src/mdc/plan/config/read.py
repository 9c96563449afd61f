"""Read and validate parameter files; errors have one line for each problem."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.caption_fits import check_captioning
from mdc.plan.config.layers import Overwritten, Places, Values, overlaid, scale_file, scales_of, spread, with_shared
from mdc.plan.config.params import Params
from mdc.plan.config.problems import problems, short
from mdc.plan.config.references import unresolved
from mdc.plan.config.scale import Scale
from mdc.plan.config.table_fits import check_encoders, check_tables
from mdc.plan.config.tables import is_free_name
from mdc.plan.config.yaml_core import Loader, dump_yaml
from mdc.plan.records import UserError, did_you_mean

#: the end of the key at the beginning of a problem
_KEY = re.compile(r": | = ")
_SCALAR = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|true|false|null")

_MOST_NODES = 100_000  # of a parameter file with its aliases written out; a real one stays far below


def _check(loader: Loader, root: yaml.Node) -> None:
    """Refuse what PyYAML accepts silently: duplicate keys in a mapping, and values without end.

    A key beside a merge key may override the merged mapping's. A few nested aliases can expand to billions of values, and an
    alias inside itself is infinite.
    """
    sizes: dict[int, int | None] = {}

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            known = sizes[id(node)]
            if known is None:
                raise ConstructorError(None, None, "an alias is inside of what it names", node.start_mark)
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
            message = f"more than {_MOST_NODES} values with all aliases written out"
            raise ConstructorError(None, None, message, node.start_mark)
        sizes[id(node)] = total
        return total

    size(root)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a parameter file. Raises UserError if it is missing, not YAML, or names a key twice."""
    return parse_yaml(_text(path), str(path))


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid YAML: not UTF-8 ({error.reason})") from None


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
        where, problem = _error_text(error, text)
        raise UserError(f"{source}{where}: not valid YAML: {' '.join(problem.split())[:300]}") from None
    if not isinstance(value, dict):
        raise UserError(f"{source}: holds no mapping of keys to values")
    return value


def _error_text(error: Exception, text: str) -> tuple[str, str]:
    """(``:line``, what is wrong). PyYAML's own message names a string instead of the file."""
    if isinstance(error, ReaderError):
        before = text.partition(chr(error.character))[0]
        return f":{before.count(chr(10)) + 1}", f"the character U+{error.character:04X} is not allowed"
    if not isinstance(error, yaml.MarkedYAMLError):
        return "", str(error)
    mark = error.problem_mark or error.context_mark
    parts = [error.problem or "", error.context or ""]
    if error.context and error.context_mark and mark and error.context_mark.line != mark.line:
        parts[-1] += f" that begins in line {error.context_mark.line + 1}"
    return f":{mark.line + 1}" if mark else "", ", ".join(filter(None, parts))


def validate(values: dict[str, Any], places: Places | str = "params.yaml") -> Params:
    """Check the merged parameters of a scale.

    ``places``: the location of each key, or the one file. UserError with one line (location, key, value, what is allowed) for
    each problem.
    """
    try:
        params = Params.model_validate(values)
    except ValidationError as error:
        messages = problems(error, values)  # a key that is not known may be why another is missing
        raise UserError(*_placed(sorted(messages, key=lambda message: "no such key" not in message), places)) from None
    if wrong := unresolved(params) or list(_misfits(params)):
        raise UserError(*_placed(wrong, places))
    return params


def _placed(messages: list[str], places: Places | str) -> list[str]:
    """Each problem preceded by the location of the key that it begins with."""
    if isinstance(places, str):
        return [f"{places}: {problem}" for problem in messages]
    return [f"{places.find(_KEY.split(problem, 1)[0])}: {problem}" for problem in messages]


def _misfits(params: Params) -> Iterator[str]:
    """Problems between sections that are valid alone: the first of each kind."""
    for check in (check_tables, check_encoders, check_captioning):
        try:
            check(params)
        except ValueError as error:
            yield str(error)


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    """The parameters of a scale. ``scale`` replaces the file's own choice."""
    return validate(*layered(path, {"scale": scale} if scale is not None else {}, option="--scale"))


def layered(path: str | Path, *above: str | Path | Values, option: str = "--config") -> tuple[Values, Places]:
    """The merged values of a scale before they are checked, and the location of each. ``above``: overriding files or command-line
    values, the last one topmost; ``option``: the command-line option of such values. UserError if a file cannot be read, or if a
    key is in the wrong file."""
    text = _text(path)
    whole = parse_yaml(text, str(path))
    tops = [("", _typed(source)) if isinstance(source, dict) else (str(source), read_yaml(source)) for source in above]
    by, chosen = next(
        ((name or option, v["scale"]) for name, v in reversed(tops) if "scale" in v), ("", whole.get("scale"))
    )
    file = _scale_file(path, by or Places([(str(path), text, ())]).find("scale"), chosen)
    own_text = _text(file)
    own = parse_yaml(own_text, str(file))
    shared = whole.pop("shared", None) or {}
    files = [(str(file), own_text, ()), (str(path), text, ("shared",)), (str(path), text, ())]
    if wrong := list(_misplaced(whole, own, shared)):
        at = {True: Places(files[:1]), False: Places(files[2:])}
        raise UserError(
            *(f"{at[in_scale].find(key.split(' ')[0])}: {key}: {problem}" for in_scale, key, problem in wrong)
        )
    on_top = [(name or option, _text(name) if name else dump_yaml(values), ()) for name, values in reversed(tops)]
    places = Places([*on_top, *files], str(file), [*own, *(key for _, values in tops for key in values)])
    if "methods" in own:
        own["methods"] = {**(whole.pop("methods", None) or {}), **(own["methods"] or {})}
    try:
        return spread(overlaid({**whole, **with_shared(shared, own)}, *(values for _, values in tops))), places
    except Overwritten as error:
        raise UserError(*_placed([str(error)], places)) from None


def _typed(value: Any) -> Any:
    """``value`` of the command line with its numbers and booleans parsed: within braces Snakemake leaves them as text."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    if isinstance(value, str) and _SCALAR.fullmatch(value):
        return parse_yaml(f"value: {value}", "--config")["value"]
    return value


def _scale_file(path: str | Path, place: str, scale: Any) -> Path:
    """The file of the scale that is chosen at ``place``. UserError if there is none."""
    scales = scales_of(path)
    if scale is None:
        raise UserError(f"{path}: scale: this key is missing; allowed: {', '.join(scales) or 'none'}")
    if scale not in scales:
        hint, allowed = did_you_mean(scale, scales), ", ".join(scales) or "none"
        raise UserError(f"{place}: scale = {short(scale)}: no file scales/{scale}.yaml{hint}; allowed: {allowed}")
    return scale_file(path, scale)


def _misplaced(whole: Values, own: Values, shared: Any) -> Iterator[tuple[bool, str, str]]:
    """Keys in the wrong file: (whether it is the scale's file, the key, what to do)."""
    blocks = Scale.model_fields
    for key in own:
        if key == "shared" or (key in Params.model_fields and key not in blocks and key != "methods"):
            yield True, key, "applies to all scales; it belongs into the parameter file alone"
    for key in whole:
        if key in blocks:
            yield False, key, "is a scale's; put it into the scale's file, or under shared"
    methods = [layer.get("methods") or {} for layer in (whole, own)]
    if not all(isinstance(layer, dict) for layer in methods):
        yield not isinstance(methods[1], dict), "methods", "holds no mapping of keys to values"
    else:
        for key in methods[1]:
            if key in methods[0]:
                yield True, f"methods.{key}", "is in the parameter file, too; give it another name"
    if not isinstance(shared, dict) or not isinstance(shared.get("tables") or {}, dict):
        yield False, "shared", "holds no mapping of keys to values"
        return
    for key in shared:
        if key not in blocks:
            hint = did_you_mean(key, blocks)
            yield False, f"shared.{key}", f"no block of a scale is called so; allowed: {', '.join(blocks)}{hint}"
        elif not isinstance(shared[key], dict):
            yield False, f"shared.{key} = {short(shared[key])}", "must be a mapping"
    for key in shared.get("tables") or {}:
        if key not in ARTEFACTS and not is_free_name(str(key)):
            yield False, f"shared.tables.{key}", f"no table or figure is called so{did_you_mean(key, ARTEFACTS)}"
