"""Error messages of one line: key, value, what is allowed."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mdc.plan.config.types import near_key
from mdc.plan.records import UserError, did_you_mean

Form = TypeVar("Form", bound=BaseModel)


def checked(form: type[Form], values: Any, where: object, mend: str = "") -> Form:
    """``values`` as ``form``. UserError with ``where`` they are from, the first problem, and how to ``mend`` it."""
    try:
        return form.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{where}: {first_problem(error, values)}{mend}") from None


def problems(error: ValidationError, values: Any = None) -> list[str]:
    """The problems of the validation of ``values``, each as ``key = value: what is allowed``.

    ``values`` are needed for a class with a union, since pydantic puts the names of its kinds into a path.
    """
    return list(dict.fromkeys(_line(problem, values) for problem in error.errors(include_url=False)))


def first_problem(error: ValidationError, values: Any = None) -> str:
    """The first of :func:`problems`."""
    return _line(error.errors(include_url=False)[0], values)


def _line(problem: Any, values: Any) -> str:
    kind, value, steps = problem["type"], problem["input"], problem["loc"]
    missing = steps[-1:] if kind == "missing" else ()
    path = _path(steps[: len(steps) - len(missing)], values, value)
    where = _middle_left_out("".join([*path, *(f".{key}" for key in missing)]).lstrip("."))
    message = _middle_left_out(problem["msg"].removeprefix("Value error, "))
    if missing:
        return f"{where}: this key is missing"
    if kind == "extra_forbidden":
        found = _walk(steps[:-1], values)[1]
        beside = found if isinstance(found, Mapping) else {}
        named = next(
            (f"no such key of {key} {short(beside[key])}" for key in ("objective", "kind") if key in beside), None
        )
        hint = near_key(str(steps[-1]), beside)
        return f"{where} = {short(value)}: {named or 'no such key is known here'}{hint}"
    if kind == "value_error":
        # a check of a mapping whose message begins with one of its keys is reported for that key
        key = re.match(r"([A-Za-z_][\w-]*)([.\[]\S*)?(?=: | = )", message)
        joins = key is not None and isinstance(value, Mapping) and key[1] in value
        return f"{where}{'.' if joins else ': '}{message}" if where else message
    if kind in ("model_type", "dict_type", "dataclass_type"):
        return f"{where or 'the value'} = {short(value)}: must be a mapping"
    if kind == "union_tag_invalid":
        allowed, key = (problem["ctx"][name].replace("'", "") for name in ("expected_tags", "discriminator"))
        given = value.get(key)
        return f"{where}.{key} = {short(given)}: no such {key}; allowed: {allowed}{did_you_mean(given, allowed.split(', '))}"
    return f"{where or 'the value'} = {short(value)}: {message[0].lower()}{message[1:]}"


def _path(steps: tuple[str | int, ...], values: Any, end: Any) -> list[str]:
    """The keys and indices that lead from ``values`` to ``end``: the ``steps`` without pydantic's own.

    A kind of a union may have the name of a key. So every step is left out once, and a path to ``end`` is preferred.
    """
    if values is None:
        return [f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps]
    ways = [_walk(steps, values), *(_walk(steps[:i] + steps[i + 1 :], values) for i in range(len(steps)))]
    return max(ways, key=lambda way: (way[1] == end, len(way[0])))[0]


def _walk(steps: tuple[str | int, ...], values: Any) -> tuple[list[str], Any]:
    """The ``steps`` that ``values`` has, nested, and the value at their end."""
    path = []
    for step in steps:
        if isinstance(values, Mapping) and step in values:
            path.append(f".{step}")
        elif isinstance(values, list | tuple) and isinstance(step, int) and step < len(values):
            path.append(f"[{step}]")
        else:
            continue
        values = values[step]
    return path, values


def _middle_left_out(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:250]} … {text[-250:]}"


def short(value: Any) -> str:
    """``value`` for a message: at most 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or thousands of nested lists
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 60 else text[:57] + "..."
