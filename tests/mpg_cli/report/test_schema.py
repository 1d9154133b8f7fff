from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from mpg_cli.report import json, model
from mpg_cli.report.descriptions import DESCRIPTIONS
from mpg_cli.report.schema import json_schema
from tests.mpg_cli.report import reports, samples

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "array": list,
    "object": dict,
    "boolean": bool,
    "nothing": (),
}


Shape = dict[str, Any]


def problems(value: Any, shape: Shape, definitions: Shape, at: str = "$") -> list[str]:
    """Where `value` does not conform, by the few keywords that the schema uses."""
    if "$ref" in shape:
        return problems(value, definitions[shape["$ref"].removeprefix("#/$defs/")], definitions, at)
    if "anyOf" in shape:
        found = [problems(value, option, definitions, at) for option in shape["anyOf"]]
        return [] if [] in found else found[0]
    if not isinstance(value, TYPES[shape["type"]]):
        return [f"{at}: {value!r} is not {shape['type']}"]
    if value != shape.get("const", value):
        return [f"{at}: {value!r} is not {shape['const']!r}"]
    inner = (problems(part, form, definitions, where) for part, form, where in parts(value, shape, at))
    return [text for found in inner for text in found]


def parts(value: Any, shape: Shape, at: str) -> list[tuple[Any, Shape, str]]:
    """What is inside `value`, each with its shape; a key too many or missing has an impossible one."""
    if isinstance(value, list):
        forms = shape.get("prefixItems", [shape["items"]] * len(value))
        return [(item, form, f"{at}[{i}]") for i, (item, form) in enumerate(zip(value, forms, strict=True))]
    if not isinstance(value, dict):
        return []
    fields = shape.get("properties", {})
    other = shape.get("additionalProperties", {"type": "nothing"})
    missing = [
        (None, {"type": "nothing"}, f"{at}.{key}") for key in shape.get("required", ()) if key not in value
    ]
    return [*missing, *((item, fields.get(key, other), f"{at}.{key}") for key, item in value.items())]


@pytest.mark.parametrize("name", [name for name in samples.ALL if name != "zeros"])
def test_reports_conform(name: str) -> None:
    schema = json_schema()
    assert problems(orjson.loads(json.render(samples.ALL[name]())), schema, schema["$defs"]) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "mpg/report/0"),
        (("totals", "chips"), None),
        (("totals", "extra"), 1),
        (("devices", 0, "rank"), "zero"),
        (("collectives", 0, "wait_ns"), {"0": "x"}),
        (("quality", "unlinked_share"), "half"),
    ],
)
def test_the_checker_finds_what_is_wrong(path: tuple[str | int, ...], value: Any) -> None:
    schema = json_schema()
    loaded = orjson.loads(json.render(reports.two_ranks()))
    inner = loaded
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert len(problems(loaded, schema, schema["$defs"])) == 1


def test_every_field_is_described_and_no_other() -> None:
    classes = {name: c for name, c in vars(model).items() if dataclasses.is_dataclass(c)}
    assert {name: list(texts) for name, texts in DESCRIPTIONS.items()}.keys() == classes.keys()
    for name, found in classes.items():
        assert list(DESCRIPTIONS[name]) == [field.name for field in dataclasses.fields(found)]
    for body in json_schema()["$defs"].values():
        assert body["description"]
        assert all(shape["description"].endswith((".", "known.")) for shape in body["properties"].values())
        assert body["required"] == list(body["properties"])
