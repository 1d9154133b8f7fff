"""The JSON Schema of the report, derived from the model."""

from __future__ import annotations

from typing import Any

import msgspec

from mpg_cli.report.descriptions import DESCRIPTIONS
from mpg_cli.report.model import SCHEMA, Report

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12). Every object and field is described, and required, for all are written."""
    derived = msgspec.json.schema(Report)
    definitions = {name: _described(name, body) for name, body in derived["$defs"].items()}
    definitions["Report"]["properties"]["schema"]["const"] = SCHEMA
    return {"$schema": _DIALECT, "title": SCHEMA, "$ref": derived["$ref"], "$defs": definitions}


def _described(name: str, body: dict[str, Any]) -> dict[str, Any]:
    properties = {
        field: {"description": DESCRIPTIONS[name][field]} | _without_default(shape)
        for field, shape in body["properties"].items()
    }
    return body | {"properties": properties, "required": list(properties)}


def _without_default(shape: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in shape.items() if key != "default"}
