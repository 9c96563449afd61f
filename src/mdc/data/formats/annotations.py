"""Published annotation files, JSON and plain text, with errors of one line."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from mdc.data.formats.folders import existing_file
from mdc.data.formats.gzipped import read_json_value, unzipped
from mdc.plan.records import UserError

Form = TypeVar("Form")


def _number(value: Any) -> Any:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:  # NaN, infinity, integers beyond both
        raise ValueError("needed: a number")
    return value


Number = Annotated[Any, AfterValidator(_number)]  # an integer stays an integer


def read_published(path: Path, dataset: str, form: type[Form], keep: Collection[str] | None = None) -> Form:
    """The JSON value of a file as ``form``, a type that pydantic knows (dataclasses of its strict types, in lists).

    With ``keep``, only these keys of objects are kept, and others are dropped while reading: nine tenths of Karpathy's COCO file
    are token lists. UserError with file, place and expected type for a value of another form.
    """

    def slim(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        last_values = dict(pairs)
        if len(last_values) != len(pairs):
            raise ValueError("duplicate key in an object")
        return last_values if keep is None else {key: value for key, value in pairs if key in keep}

    value = read_json_value(existing_file(path, dataset), slim)
    try:
        return TypeAdapter(form).validate_python(value)
    except ValidationError as error:
        raise UserError(f"{path}: {_first(error)}; is it the published file?") from None


def _first(error: ValidationError) -> str:
    """The first error: place, value, expected type."""
    problem = error.errors(include_url=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem["loc"]).lstrip(".")
    if problem["type"] == "missing":
        return f"{place} is missing"
    needed = {
        "dataclass_type": "needed: an object",
        "value_error": problem["msg"].removeprefix("Value error, "),
    }.get(problem["type"], problem["msg"].replace("Input should be", "needed:"))
    return f"{place or 'the file'} is {_shown(problem['input'])}; {needed}"


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except ValueError:  # an integer of thousands of digits
        return f"a {type(value).__name__} too large to show"


def published_lines(path: Path, dataset: str) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of the lines that are not blank, without line ends. UserError if the file is not UTF-8."""
    with unzipped(existing_file(path, dataset)) as file:
        data = file.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); download the file again") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")
