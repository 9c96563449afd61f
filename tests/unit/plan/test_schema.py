"""The JSON schemas that editors read: they are those of the classes, take every file there is, and mark what is wrong."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scale_files import ROOT, SCALES

from mdc.plan.config.schema import schema_text, schemas
from mdc.plan.config.yaml_core import read_yaml

FOLDER = ROOT / "workflow/schemas"
SCHEMAS = schemas()


def _validator(name: str) -> Any:
    return jsonschema.Draft202012Validator({**SCHEMAS["scale.schema.json"], "$ref": f"#/$defs/{name}"})


def test_the_files_are_those_of_the_classes() -> None:
    for name, schema in SCHEMAS.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == schema_text(schema), "call `mdc schema`"


@pytest.mark.parametrize("file", ["params.yaml", *(f"scales/{name}.yaml" for name in SCALES)])
def test_every_file_names_its_schema_and_is_valid(file: str) -> None:
    path = ROOT / file
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert Path(path.parent, first.rpartition("$schema=")[2]).resolve().parent == FOLDER
    name = "Params" if file == "params.yaml" else "Scale"
    assert [error.message for error in _validator(name).iter_errors(read_yaml(path))] == []


@pytest.mark.parametrize(
    "values",
    [
        {"prob": {}},
        {"scale": "mini"},
        {"pretrain": {"recipe": {"lrr": 1.0}}},
        {"pretrain": {"recipe": {"precision": "fp64"}}},
        {"pretrain": {"overrides": [{"when": {"method": ["mdc"]}, "set": {"lrr": 1.0}}]}},
        {"data": {"probes": {"x": {"source": {"kind": "nope"}}}}},
        {"tables": {"tabel1": {}}},
        {"tables": {"table1": {"corpora": {"alt": 3}}}},
        {"captions": {"systems": {"x": {"decode": {"kind": "beam", "lengths": [3]}}}}},
        {"captions": {"systems": {"_": {"mismatch": True}}}},
    ],
    ids=str,
)
def test_what_is_wrong_is_marked(values: dict[str, Any]) -> None:
    assert list(_validator("Scale").iter_errors(values))


@pytest.mark.parametrize(
    "values",
    [
        {"probe": {}},
        {"probe": None},
        {"data": {"corpora": {"_": {"source": {"pixels": 48}}, "alt": {"source": {"style": "alt"}}}}},
        {
            "tables": {
                "table1": {"corpora": ["alt"], "methods": ["mdc"]},
                "table_own": {"kind": "methods", "title": "Own"},
            }
        },
        {"captions": {"systems": {"cfg": {"decode": {"guidance": [1.0, 3.0]}, "mismatched": [3.0]}}}},
    ],
    ids=str,
)
def test_a_part_of_a_scale_is_valid(values: dict[str, Any]) -> None:
    assert [error.message for error in _validator("Scale").iter_errors(values)] == []
