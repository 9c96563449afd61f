"""One line that says what is wrong with a value: key, value, what is allowed."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from mdc import parts

# the tags of discriminated unions, which pydantic puts into a path and no file has: by the key before, …
_TAGS = {
    "source": frozenset((*parts.CORPORA, *parts.PROBES, *parts.CHOICES, *parts.TEXTS)),
    "write": frozenset(("unmask", "beam", "diffuse")),
    "clip_score": frozenset(("run", "open_clip")),
    "by": frozenset(("clip_score", "endpoint")),
    "order": frozenset(("global", "blocks")),
}
# … or by the section before, whose entries are of several kinds
_TAGS_OF_ENTRIES = {"backbones": frozenset(("trained", "frozen")), "encoders": frozenset(parts.TOWERS)}
_NUMBER_TEXT = re.compile(r"^[+-]?[0-9.]+[eE][+-]?[0-9]+$")


def first_problem(error: ValidationError) -> str:
    """The first problem of a validation as ``key = value: what is allowed``."""
    problem = error.errors(include_url=False)[0]
    steps: list[str] = []
    path = problem["loc"]
    for section, before, step in zip((None, None, *path), (None, *path), path, strict=False):
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif step in _TAGS.get(str(before), ()) or step in _TAGS_OF_ENTRIES.get(str(section), ()):
            continue
        elif step != "[key]":
            steps.append(f".{step}")
    where = _middle_left_out("".join(steps).lstrip("."))
    value = problem["input"]
    message = _middle_left_out(problem["msg"].removeprefix("Value error, "))
    if problem["type"] == "missing":
        return f"{where}: this key is missing"
    if problem["type"] == "extra_forbidden":
        return f"{where} = {short(value)}: no such key is known here"
    if problem["type"] == "value_error":
        return f"{where}: {message}" if where else message
    hint = ""
    if isinstance(value, str) and _NUMBER_TEXT.match(value):
        hint = " (YAML reads this as text: write it with a point, as 1.0e-4)"
    return f"{where} = {short(value)}: {message[0].lower()}{message[1:]}{hint}"


def _middle_left_out(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:250]} … {text[-250:]}"


def short(value: Any) -> str:
    """``value`` as a message shows it: at most 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or thousands of nested lists
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 60 else text[:57] + "..."
