"""What is wrong with a parameter file: every problem a line of its own, which begins with a path that the file has."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from changed import put, with_other
from pydantic import BaseModel

from mdc.cli import main
from mdc.config import read_yaml, validate
from mdc.records import UserError

ROOT = Path(__file__).resolve().parents[3]
VALUES = read_yaml(ROOT / "params.yaml")

Path_ = tuple[str | int, ...]


def _alone(scale: str) -> dict[str, Any]:
    return VALUES | {"scale": scale, "scales": {scale: VALUES["scales"][scale]}}


def _places(read: Any, values: Any, path: Path_ = (), field: Any = None) -> Iterator[tuple[Any, Path_]]:
    """Every place of ``values``, which were read as ``read``, with the class and the key that it belongs to."""
    if path:
        yield field, path
    if isinstance(values, list):
        for number, value in enumerate(values):
            yield from _places(read[number] if isinstance(read, list | tuple) else read, value, (*path, number), field)
    elif isinstance(values, dict):
        fields = type(read).model_fields if isinstance(read, BaseModel) else {}
        names = {info.alias or name: name for name, info in fields.items()}
        for key, value in values.items():
            inner = getattr(read, names[key]) if key in names else read.get(key) if isinstance(read, dict) else None
            yield from _places(inner, value, (*path, key), (type(read), key) if key in names else field)


def _broken() -> Iterator[tuple[dict[str, Any], Path_]]:
    """The file with something that cannot stand there, in one place of each class and key of the schema."""
    seen = set()
    for scale in VALUES["scales"]:
        values = _alone(scale)
        for field, path in _places(validate(values), values):
            if (field, isinstance(path[-1], int)) not in seen:
                seen.add((field, isinstance(path[-1], int)))
                yield with_other(values, path, {"nonsense": [1]}), path


def _rest(values: Any, text: str) -> str | None:
    """What follows the longest path of ``values`` that ``text`` begins with; None if it begins with none."""
    inside = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    found = [
        text[len(name) :] if inner is None else inner
        for key, value in inside
        for name in (f"[{key}]" if isinstance(key, int) else f".{key}",)
        if text.startswith(name) and text[len(name) :][:1] in ".[ :"
        for inner in (_rest(value, text[len(name) :]),)
    ]
    return min(found, key=len) if found else None


def test_every_path_that_is_named_is_one_of_the_file() -> None:
    tried = 0
    for values, path in _broken():
        with pytest.raises(UserError) as error:
            validate(values)
        for line in str(error.value).splitlines():
            said = line.removeprefix("params.yaml: ")
            rest = _rest(values, f".{said}")
            # a key that is missing has a parent that is there
            assert rest is not None and re.match(r"( = |: |\.\w+: this key is missing$)", rest), (path, line)
        tried += 1
    assert tried > 300, tried


def test_a_missing_key_is_named_where_it_belongs() -> None:
    """Of every kind of backbone, which pydantic tells apart by names of its own."""
    kinds = {}
    for scale, body in VALUES["scales"].items():
        for name, backbone in body.get("pretrain", {}).get("backbones", {}).items():
            kinds[tuple(backbone)] = ("scales", scale, "pretrain", "backbones", name)
    assert len(kinds) >= 3
    for path in kinds.values():
        for missing in (("label",), ("decoder", "width")):
            values = copy.deepcopy(_alone(path[1]))
            put(values, (*path, *missing), None)
            with pytest.raises(UserError) as error:
                validate(values)
            assert str(error.value) == f"params.yaml: {'.'.join((*path, *missing))}: this key is missing"


def test_mdc_check_names_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    place = tmp_path / "params.yaml"
    text = place.read_text().replace("level: 0.95 ", "level: high ", 1)
    place.write_text(
        text.replace("normalise: true", "normalise: yes", 1).replace("bootstrap: 2000", "bootstrap: 1_000", 1)
    )
    assert main(["check", "--params", str(place)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" = ")[0] for line in lines] == [
        f"mdc check: {place}: protocol.{key}" for key in ("probe.normalise", "statistics.level", "statistics.bootstrap")
    ]
