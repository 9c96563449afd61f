"""Reading and complaining: a parameter file in, validated parameters or a line for each problem out."""

from __future__ import annotations

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
from mdc.plan.config.encoder_fits import check_encoders
from mdc.plan.config.layers import Overwritten, Places, Values, overlaid, scale_file, scales_of, spread, with_shared
from mdc.plan.config.params import Params
from mdc.plan.config.problems import problems, short
from mdc.plan.config.references import unresolved
from mdc.plan.config.scale import Scale
from mdc.plan.config.table_fits import check_tables
from mdc.plan.config.tables import is_free_name
from mdc.plan.config.yaml_core import Loader, dump_yaml
from mdc.plan.records import UserError

#: what ends the key with which a problem begins
_KEY = re.compile(r": | = ")
_SCALAR = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|true|false|null")

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
        where, what = _told(error, text)
        raise UserError(f"{source}{where}: not valid YAML: {' '.join(what.split())[:300]}") from None
    if not isinstance(value, dict):
        raise UserError(f"{source}: holds no mapping of keys to values")
    return value


def _told(error: Exception, text: str) -> tuple[str, str]:
    """Where and what is wrong. PyYAML's own words say instead that it is in a string."""
    if isinstance(error, ReaderError):
        before = text.partition(chr(error.character))[0]
        return f":{before.count(chr(10)) + 1}", f"the character U+{error.character:04X} may not stand in it"
    if not isinstance(error, yaml.MarkedYAMLError):
        return "", str(error)
    mark = error.problem_mark or error.context_mark
    told = [error.problem or "", error.context or ""]
    if error.context and error.context_mark and mark and error.context_mark.line != mark.line:
        told[-1] += f" that begins in line {error.context_mark.line + 1}"
    return f":{mark.line + 1}" if mark else "", ", ".join(filter(None, told))


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


def validate(values: dict[str, Any], places: Places | str = "params.yaml") -> Params:
    """Check the parameters of a scale, with all layers on top of each other.

    ``places`` say where each key stands, or name the one file. Raises UserError with one line (place, key, value, what is
    allowed) for each problem.
    """
    _refuse_huge(values, places if isinstance(places, str) else places.find(""))
    try:
        params = Params.model_validate(values)
    except ValidationError as error:
        told = problems(error, values)  # a key that is not known may be why another is missing
        raise UserError(*_placed(sorted(told, key=lambda one: "no such key" not in one), places)) from None
    if wrong := unresolved(params) or list(_misfits(params)):
        raise UserError(*_placed(wrong, places))
    return params


def _placed(told: list[str], places: Places | str) -> list[str]:
    """Each problem behind the place of the key that it begins with."""
    if isinstance(places, str):
        return [f"{places}: {problem}" for problem in told]
    return [f"{places.find(_KEY.split(problem, 1)[0])}: {problem}" for problem in told]


def _misfits(params: Params) -> Iterator[str]:
    """Problems between parts that are valid alone: the first of each kind."""
    for check in (check_tables, check_encoders, check_captioning):
        try:
            check(params)
        except ValueError as error:
            yield str(error)


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    """The parameters of a scale. ``scale`` replaces the file's own choice."""
    return validate(*layered(path, {"scale": scale} if scale is not None else {}, option="--scale"))


def layered(path: str | Path, *above: str | Path | Values, option: str = "--config") -> tuple[Values, Places]:
    """The values of a scale before they are checked, and where each stands. ``above``: files, or values of the command line,
    that lie on top, the last one topmost; ``option``: what gave these values. UserError if a file cannot be read, or if something
    stands in the wrong one."""
    text = _text(path)
    whole = parse_yaml(text, str(path))
    tops = [("", _typed(one)) if isinstance(one, dict) else (str(one), read_yaml(one)) for one in above]
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
        raise UserError(*(f"{at[in_scale].find(key.split(' ')[0])}: {key}: {what}" for in_scale, key, what in wrong))
    on_top = [(name or option, _text(name) if name else dump_yaml(values), ()) for name, values in reversed(tops)]
    places = Places([*on_top, *files], str(file), [*own, *(key for _, values in tops for key in values)])
    if "methods" in own:
        own["methods"] = {**(whole.pop("methods", None) or {}), **(own["methods"] or {})}
    try:
        return spread(overlaid({**whole, **with_shared(shared, own)}, *(values for _, values in tops))), places
    except Overwritten as error:
        raise UserError(*_placed([str(error)], places)) from None


def _typed(value: Any) -> Any:
    """``value`` of the command line with its numbers and booleans: Snakemake leaves what lies within braces as text."""
    if isinstance(value, dict):
        return {key: _typed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_typed(one) for one in value]
    if isinstance(value, str) and _SCALAR.fullmatch(value):
        return parse_yaml(f"value: {value}", "--config")["value"]
    return value


def _scale_file(path: str | Path, place: str, scale: Any) -> Path:
    """The file of the scale that is chosen at ``place``. UserError if there is none."""
    there = scales_of(path)
    if scale is None:
        raise UserError(f"{path}: scale: this key is missing; allowed: {', '.join(there) or 'none'}")
    if scale not in there:
        raise UserError(
            f"{place}: scale = {short(scale)}: no file scales/{scale}.yaml; allowed: {', '.join(there) or 'none'}"
        )
    return scale_file(path, scale)


def _misplaced(whole: Values, own: Values, shared: Any) -> Iterator[tuple[bool, str, str]]:
    """What stands in the wrong file: whether it is the scale's, the key, and what to do."""
    blocks = Scale.model_fields
    for key in own:
        if key == "shared" or (key in Params.model_fields and key not in blocks and key != "methods"):
            yield True, key, "holds for all scales; it stands in the parameter file alone"
    for key in whole:
        if key in blocks:
            yield False, key, "is a scale's; put it into the scale's file, or under shared"
    methods = [one.get("methods") or {} for one in (whole, own)]
    if not all(isinstance(one, dict) for one in methods):
        yield not isinstance(methods[1], dict), "methods", "holds no mapping of keys to values"
    else:
        for key in methods[1]:
            if key in methods[0]:
                yield True, f"methods.{key}", "stands in the parameter file, too; give it another name"
    if not isinstance(shared, dict) or not isinstance(shared.get("tables") or {}, dict):
        yield False, "shared", "holds no mapping of keys to values"
        return
    for key in shared:
        if key not in blocks:
            yield False, f"shared.{key}", f"no block of a scale is called so; allowed: {', '.join(blocks)}"
        elif not isinstance(shared[key], dict):
            yield False, f"shared.{key} = {short(shared[key])}", "must be a mapping"
    for key in shared.get("tables") or {}:
        if key not in ARTEFACTS and not is_free_name(str(key)):
            yield False, f"shared.tables.{key}", "no table or figure is called so"
