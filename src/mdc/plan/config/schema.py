"""JSON schemas of params.yaml and of a scale's file, for editors: completion, allowed values and docstrings while typing.

They are generated from the classes. A file is a layer, so no key is required, and every mapping may have an entry ``_``.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from mdc.plan.artefacts import ARTEFACTS, KINDS, declared
from mdc.plan.config.methods import BY_RUN
from mdc.plan.config.params import Params
from mdc.plan.config.scale import Scale
from mdc.plan.records import write_text_if_changed

FOLDER = Path("workflow/schemas")
_NOT_OF_A_LAYER = ("required", "minProperties", "title", "default")


def schemas() -> dict[str, dict[str, Any]]:
    """File name → schema."""
    tables = {name: artefact.load("config") for name, artefact in ARTEFACTS.items()}
    kinds = {kind: declared("", kind).load("config") for kind in KINDS}
    classes = dict.fromkeys([Params, *tables.values(), *kinds.values()])
    refs, complete = models_json_schema([(kind, "validation") for kind in classes])
    whole = _as_layer(complete["$defs"])
    own = {kind: whole[refs[of, "validation"]["$ref"].rpartition("/")[2]] for kind, of in kinds.items()}
    whole["Tables"] = {
        "type": "object",
        "properties": {name: refs[kind, "validation"] for name, kind in tables.items()},
        "additionalProperties": {"anyOf": [_own(kind, schema) for kind, schema in own.items()]},
    }
    for schema in whole.values():
        _described(schema)
    changed = whole["Recipe"]["properties"] | {key: {} for key in sorted(BY_RUN)}
    whole["Override"]["properties"]["set"] = {**whole["Recipe"], "properties": changed}
    fields = whole["Params"]["properties"]
    fields["tables"] = {"$ref": "#/$defs/Tables"}
    scale = {key: fields[key] for key in Scale.model_fields} | {"methods": fields["methods"]}
    whole["Scale"] = {**whole["Params"], "description": Scale.__doc__, "properties": scale}
    besides = {key: fields[key] for key in Params.model_fields if key not in Scale.model_fields}
    whole["Params"] = {**whole["Params"], "properties": {**besides, "shared": {"$ref": "#/$defs/Scale"}}}
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {
        "params.schema.json": {**draft, "$ref": "scale.schema.json#/$defs/Params"},
        "scale.schema.json": {**draft, "$ref": "#/$defs/Scale", "$defs": whole},
    }


def _own(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a scale's own table or figure of a kind."""
    named = {"kind": {"const": kind}, "title": {"type": "string"}}
    return {**schema, "properties": {**schema["properties"], **named}, "required": ["kind", "title"]}


def _described(schema: dict[str, Any]) -> None:
    """Describe each key by the text after its name in the docstring of its class."""
    text = " ".join(schema.get("description", "").split())
    for key, value in schema.get("properties", {}).items():
        match = re.search(rf"``{key}``[^:`]*: (.+?)(?=\.? ``\w+``[^:`]*: |$)", text)
        if match:
            value["description"] = match[1]


def _as_layer(schema: Any) -> Any:
    """Turn the schema of a complete file into that of a layer."""
    if isinstance(schema, list):
        return [_as_layer(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    layer = {
        key: _as_layer(value) for key, value in schema.items() if key not in _NOT_OF_A_LAYER or isinstance(value, dict)
    }
    layer.pop("discriminator", None)
    if "oneOf" in layer:  # without its kind, a part may be of several classes
        layer["anyOf"] = layer.pop("oneOf")
    if isinstance(layer.get("patternProperties"), dict) and layer.get("type") == "object":
        (layer["additionalProperties"],) = layer.pop("patternProperties").values()
    layer.pop("propertyNames", None)
    if layer.get("type") == "object" and layer.get("additionalProperties") is not False:
        return {"anyOf": [layer, {"type": "null"}]} if "properties" not in layer else layer
    return layer


def main(args: argparse.Namespace) -> None:
    """Write them below ``args.out``."""
    for name, schema in schemas().items():
        path = Path(args.out) / name
        print(f"{path}: {'written' if write_text_if_changed(path, schema_text(schema)) else 'as it was'}")


def schema_text(schema: dict[str, Any]) -> str:
    """A line a definition."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in schema.items() if key != "$defs"]
    if definitions := sorted(schema.get("$defs", {}).items()):
        inner = ",\n".join(f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in definitions)
        lines.append(f'"$defs": {{\n{inner}\n}}')
    return "{" + ",\n".join(lines) + "}\n"
