"""Published annotation files, JSON and plain text, with errors of one line."""

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from mdc.data.formats.folders import needed
from mdc.data.formats.gzipped import lines_of, read_json_value
from mdc.plan.config.problems import first_problem, short
from mdc.plan.records import UserError

Form = TypeVar("Form")


def _number(value: Any) -> Any:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:  # NaN, infinity, integers beyond both
        raise ValueError(f"must be a number, not {short(value)}")
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

    value = read_json_value(needed(path, "file", dataset), slim)
    try:
        return TypeAdapter(form).validate_python(value)
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error, value)}; is it the published file?") from None


def published_lines(path: Path, dataset: str) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of the lines that are not blank, without line ends. UserError if the file is not UTF-8."""
    lines = lines_of(needed(path, "file", dataset))
    return ((number, line.rstrip("\r\n")) for number, line in lines if line.strip())
