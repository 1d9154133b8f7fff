"""Objects out of every shape in which kubectl and others write them, and out of damaged ones."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fixtures.kubernetes import make
from mpg_parsers import registry
from mpg_parsers.errors import InputError
from mpg_parsers.kube import reading
from mpg_parsers.kube.reading import Found, Objects
from mpg_parsers.kubernetes_objects import KUBERNETES
from mpg_parsers.source import expand
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices, read, read_text

if TYPE_CHECKING:
    from pathlib import Path

ITEMS = [make.pod("p", gpus=4), make.node("n1"), make.pod("q", labels={"a": 'quote " brace } bracket ['})]
DUMP = (ROOT / "fixtures/kubernetes/dump.json").read_bytes()


def listed(items: list[Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}, **more}


def objects(text: str | bytes) -> tuple[list[Found], Objects]:
    data = text if isinstance(text, bytes) else text.encode()
    reader = Objects(io.BytesIO(data), "file")
    return list(reader), reader


SHAPES = {
    "a list, indented": json.dumps(listed(ITEMS), indent=4),
    "a list in one line": json.dumps(listed(ITEMS), separators=(",", ":")),
    "a list without indentation": json.dumps(listed(ITEMS), indent=0),
    "kind first": json.dumps({"kind": "List", "apiVersion": "v1", "metadata": {"a": {}}, "items": ITEMS}),
    "an array": json.dumps(ITEMS, indent=2),
    "a line each": "\n".join(map(json.dumps, ITEMS)),
    "a line each, among others": "warning: deprecated\n" + "\n".join(map(json.dumps, ITEMS)) + "\nE0101 bye",
    "one after another": "\n".join(json.dumps(item, indent=4) for item in ITEMS),
    "without anything between": "".join(map(json.dumps, ITEMS)),
    "a watch": "\n".join(json.dumps({"type": "ADDED", "object": item}) for item in ITEMS),
    "a watch, indented": "\n".join(json.dumps({"object": item, "type": "ADDED"}, indent=4) for item in ITEMS),
    "a list, then changes": "\n".join(
        [json.dumps(listed(ITEMS[:2]), indent=4), json.dumps(ITEMS[2], indent=4)]
    ),
    "lists line by line": "\n".join(json.dumps(listed([item])) for item in ITEMS),
    "Windows": json.dumps(listed(ITEMS), indent=4).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_shapes(shape: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ", size)
    found, reader = objects(SHAPES[shape])
    assert [one.value for one in found] == ITEMS
    assert not reader.cut
    assert reader.bad == (2 if "among" in shape else 0)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_encodings_of_windows(encoding: str, tmp_path: Path) -> None:
    found = read_text(KUBERNETES, tmp_path, json.dumps(listed(ITEMS), indent=4).encode(encoding))
    assert found["attempts"]["job"].to_list() == ["p", "q"]


def test_a_list_says_what_its_items_are() -> None:
    bare = [{key: value for key, value in ITEMS[0].items() if key not in ("kind", "apiVersion")}]
    (found,), _ = objects(
        json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": bare}, indent=1)
    )
    assert found.kind == "Pod"
    (found,), _ = objects(json.dumps({"kind": "PodList", "items": bare}) + "\n")
    assert found.kind == "Pod"


def test_items_without_a_kind_are_told_by_their_fields(tmp_path: Path) -> None:
    bare = {"metadata": make.meta("p", "u", 0), "spec": {"containers": [make.container(2)]}}
    told = make.event(ITEMS[0], "FailedScheduling", 5)
    del told["kind"], told["apiVersion"]
    text = json.dumps({"items": [bare, told], "kind": "List", "apiVersion": "v1"})
    found = read_text(KUBERNETES, tmp_path, text)
    assert found["attempts"]["chips_requested"].to_list() == [2]
    assert found["scheduler_events"]["event"].to_list() == ["failed_scheduling"]


def test_an_object_inside_another_is_not_an_item() -> None:
    inner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    outer = {"apiVersion": "v1", "kind": "Pod", "spec": {"claims": [inner, inner, inner]}}
    found, _ = objects(json.dumps(listed([outer, outer])))
    assert [one.value for one in found] == [outer, outer]


def test_what_a_watch_says_of_deletion() -> None:
    lines = [{"type": "DELETED", "object": ITEMS[0]}, {"type": "ERROR", "object": {"kind": "Status"}}]
    found, _ = objects("\n".join(map(json.dumps, lines)))
    assert [(one.value, one.deleted) for one in found] == [(ITEMS[0], True)]


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    lines = [json.dumps(item) for item in (*ITEMS, make.pod("r"))]
    lines[1] = lines[1][:200]
    found = read_text(KUBERNETES, tmp_path, "\n".join(lines))
    assert found["attempts"]["job"].to_list() == ["p", "q", "r"]
    assert notices(found) == [("bad_row", 1)]


def test_a_cut_dump_gives_what_is_whole(tmp_path: Path) -> None:
    text = json.dumps(listed(ITEMS), indent=4)
    found = read_text(KUBERNETES, tmp_path, text[: text.index('"q"')])
    assert found["attempts"]["job"].to_list() == ["p"]
    assert notices(found) == [("truncated_input", 1)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": []}', "no_jobs"),
        ('{"apiVersion": "v1", "kind": "List", "items": [{"kind": "ConfigMap"}]}', "no_jobs"),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ', "truncated_input"),
        ('{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {}}, oops', "corrupt_input"),
        ('{"apiVersion": "v1", "kind": "Pod" oops}', "corrupt_input"),
        ("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n", "unsupported_format"),
    ],
)
def test_errors(text: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_text(KUBERNETES, tmp_path, text)
    assert caught.value.kind == kind
    if kind in ("no_jobs", "unsupported_format"):
        assert "-o json" in caught.value.hint


def test_an_object_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_OBJECT", 1000)
    monkeypatch.setattr(reading, "READ", 100)
    text = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "' + "x" * 5000
    with pytest.raises(InputError, match="no end within") as caught:
        read_text(KUBERNETES, tmp_path, text)
    assert caught.value.kind == "corrupt_input"


def test_a_list_may_begin_with_objects_of_any_kind(tmp_path: Path) -> None:
    others = [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"note": "x" * 70000}}]
    found = read_text(KUBERNETES, tmp_path, json.dumps(listed([*others, *ITEMS]), indent=4))
    assert found["attempts"]["job"].to_list() == ["p", "q"]


@pytest.mark.parametrize(
    "text",
    [
        "", "hello", "{}", "[]", '{"traceEvents": []}', '{"kind": "Pod"}', '{"apiVersion": "v1"}',
        '{"apiVersion": "apps/v1", "kind": "Deployment"}', "kind: Cluster\napiVersion: kind.x-k8s.io/v1\n",
        "JobID,State\n1,COMPLETED\n",
    ],
)  # fmt: skip
def test_what_it_does_not_take(text: str) -> None:
    assert KUBERNETES.sniff(text.encode(), "pods.json")


def test_the_registry_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "any.txt"
    path.write_bytes(DUMP)
    registry.parsers.cache_clear()
    with expand([str(path)]) as expansion:
        assert registry.detect(expansion.sources[0]) is KUBERNETES


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(DUMP) - 1), st.integers(0, 300), st.binary(max_size=12))
@example(0, len(DUMP), b"")
def test_damage_gives_rows_or_an_error(tmp_path: Path, at: int, gap: int, put: bytes) -> None:
    path = tmp_path / "dump"
    path.write_bytes(DUMP[:at] + put + DUMP[at + gap :])
    if KUBERNETES.sniff(path.read_bytes()[:65536], "dump"):
        return
    caught = None
    try:
        read(KUBERNETES, path)
    except InputError as error:
        caught = error.kind
    assert caught in (
        None,
        "truncated_input",
        "corrupt_input",
        "no_jobs",
        "unsupported_format",
        "empty_input",
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("2024-05-29T08:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, part in inner for found in _paths(part, (*path, key)))]


CLUSTER = [item["object"] for item in make.watch()] + make.cluster()
PLACES = [(at, path) for at, value in enumerate(CLUSTER) for path in _paths(value) if path]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=4))
def test_fields_of_any_type(tmp_path: Path, changes: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> None:
    """Whatever stands in a field, rows conform to their tables."""
    items = json.loads(json.dumps(CLUSTER))
    for (number, path), put in changes:
        inner = items[number]
        # an earlier change may have taken the place away
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = put
    text = "\n".join(json.dumps(item).replace("NaN", "0").replace("Infinity", "9") for item in items)
    read_text(KUBERNETES, tmp_path, text)
