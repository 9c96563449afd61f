"""The parameters of a scale's tables and figures, a class for each kind. Those that a scale does not name are not made."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from pydantic import GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from mdc.plan.artefacts import ARTEFACTS, KINDS, Artefact, declared
from mdc.plan.config.problems import short
from mdc.plan.config.types import Name
from mdc.plan.records import did_you_mean


class Tables(dict[str, Any]):
    """The tables and figures that a scale names: the parameters of each, and under ``artefacts`` its declaration.

    A name is that of an artefact, or a free one with the ``kind`` and the ``title`` of one more of a kind.
    """

    def __init__(self) -> None:
        self.artefacts: dict[str, Artefact] = {}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(cls._read, handler(dict[Name, Any]))

    @classmethod
    def _read(cls, values: Mapping[str, Any]) -> Self:
        tables, wrong = cls(), list[Any]()
        for name, value in values.items():
            if value is None:
                continue
            try:
                artefact, block = _declared(name, value)
                tables[name] = artefact.load("config").model_validate(block)
                tables.artefacts[name] = artefact
            except ValidationError as error:
                wrong += [{**problem, "loc": (name, *problem["loc"])} for problem in error.errors(include_url=False)]
            except ValueError as error:
                wrong.append({"type": "value_error", "loc": (name,), "input": value, "ctx": {"error": error}})
        if wrong:
            raise ValidationError.from_exception_data("tables", wrong)
        return tables

    def needing(self, section: str) -> dict[str, Any]:
        """Those that need a section of the scale."""
        return {name: block for name, block in self.items() if section in block.sections}


def with_usual(tables: Any, usual: Mapping[str, Any]) -> Any:
    """``tables`` with the ``usual`` value of every required key that a table lacks; :class:`Tables` reports what is no table."""
    if not isinstance(tables, dict):
        return tables
    complete = {}
    for name, block in tables.items():
        if isinstance(block, dict):
            with suppress(ValueError):
                fields = _declared(name, block)[0].load("config").model_fields
                needed = [key for key in usual if key in fields and fields[key].is_required()]
                block = {**{key: usual[key] for key in needed}, **block}
        complete[name] = block
    return complete


def _declared(name: str, block: Any) -> tuple[Artefact, Any]:
    """The declaration of a name in a scale's tables, and its own parameters. ValueError if there is none."""
    if not isinstance(block, dict) or "kind" not in block:
        if name not in ARTEFACTS:
            hint = did_you_mean(name, ARTEFACTS)
            raise ValueError(f"no table or figure is called so; one of your own has a kind: {', '.join(KINDS)}{hint}")
        return ARTEFACTS[name], block
    own = {key: value for key, value in block.items() if key not in ("kind", "title")}
    kind, title = block["kind"], block.get("title")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind = {short(kind)}: allowed: {', '.join(KINDS)}")
    if not isinstance(title, str) or not title:
        raise ValueError("title: one line is needed, which says what it shows")
    artefact = declared(name, kind, title)
    start = artefact.category.lower().removesuffix("s")
    if name in ARTEFACTS or not is_free_name(name, start):
        raise ValueError(f"no free name; {start}_ and small letters, digits or _ make one")
    return artefact, own


def is_free_name(name: str, start: str = "") -> bool:
    """Whether a scale may use this name for its own table or figure: small letters, _, and more. table_… and figure_… are for
    what ``start`` says."""
    first = name.partition("_")[0]
    kept = first in ("table", "figure") and start not in ("", first)
    return re.fullmatch("[a-z]+_[a-z0-9_]+", name) is not None and not kept
