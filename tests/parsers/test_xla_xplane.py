"""XPlane files as a whole: recognition, planes and their metadata, and everything that can be wrong with a file."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.internal import api_implementation
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.errors import InputError
from mpg_parsers.xla import xplane, xplane_sniff
from mpg_parsers.xla.messages import Field, classes
from mpg_parsers.xla.space import INTEGERS, TEXTS
from mpg_parsers.xla.xplane import looks_like, read
from mpg_parsers.xla.xplane_wire import CutError, WireError, spans
from tests.mpg_cli.running import ROOT
from tests.parsers import xplane_oracle as oracle
from tests.real_traces import CORPUS, NO_CORPUS

HEAD = 1 << 16
MANGLED = "tpu_inference_2_CORRUPT_utf8_mangled.xplane.pb"
FILES = sorted(path for path in CORPUS.rglob("*.xplane.pb") if path.stat().st_size)
WHOLE_FILES = [path for path in FILES if path.name != MANGLED and "truncated" not in str(path)]
with_corpus = pytest.mark.skipif(not FILES, reason=NO_CORPUS)


def plane(name: str = "/host:CPU", stats: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Keyword arguments of an XPlane; names of stats are numbered from 1."""
    stats = stats or {}
    names = [{"key": key, "value": {"name": text.encode()}} for key, text in enumerate(stats, 1)]
    values = [{"metadata_id": key, **value} for key, value in enumerate(stats.values(), 1)]
    return {"name": name.encode(), "stat_metadata": names, "stats": values, **fields}


def space(*planes: dict[str, Any], **fields: Any) -> bytes:
    content: bytes = oracle.XSpace(planes=planes, **fields).SerializeToString()
    return content


def line(count: int = 2, **fields: Any) -> dict[str, Any]:
    events = [{"metadata_id": 1, "offset_ps": 10 * i, "duration_ps": 5} for i in range(count)]
    return {"id": 7, "name": b"main", "timestamp_ns": 40, "events": events, **fields}


WHOLE = space(
    plane("/device:TPU:0", {"peak": {"double_value": 1.5}}, lines=[line(3), line(0, name=b"", display_name=b"d")]),
    plane("/host:CPU", {"run_id": {"uint64_value": 7}}, event_metadata=[{"key": 1, "value": {"name": b"op"}}]),
    plane("Task Environment", {"profile_start_time": {"uint64_value": 5}, "profile_stop_time": {"uint64_value": 9}}),
    errors=[b"no device"], warnings=[b"dropped"], hostnames=[b"h0", b"h1"],
)  # fmt: skip


TEXT = {"events": [{"metadata_id": 3, "offset_ps": 4, "stats": [{"metadata_id": 1, "str_value": b"x"}]}]}
COUNTED = {"events": [{"metadata_id": 3, "num_occurrences": 4}]}


@pytest.mark.parametrize(
    "more", [[], [line(0)], [line(**TEXT)], [line(**COUNTED)], [line(1, display_name=b"y", name=b"")]]
)
def test_short_lines_are_read_together(monkeypatch: pytest.MonkeyPatch, more: list[dict[str, Any]]) -> None:
    lines = [line(count, id=count, timestamp_ns=-count) for count in range(70)] + more + [line(3)]
    data = space(plane(stats={"hlo_op": {"uint64_value": 7}}, lines=lines))
    assert oracle.check(data, read(data, "p"), ("hlo_op", "run_id")) > 2000
    if not more:
        monkeypatch.setattr(xplane, "one_by_one", None)
        (host,) = read(data, "p").planes
        assert host.together(host.lines, ())["line"].n_unique() == 70


def refusal(data: bytes, path: str = "p.xplane.pb") -> tuple[str, str, str]:
    """(kind, message, hint) of the error that reading everything gives."""
    with pytest.raises(InputError) as caught:
        read_all(data, path)
    return caught.value.kind, caught.value.message, caught.value.hint


def read_all(data: bytes, path: str = "p.xplane.pb") -> int:
    found = read(data, path)
    for one in found.planes:
        assert len(list(one.metadata.values())) == len(one.metadata)
    return sum(each.events((*INTEGERS, *TEXTS)).height for one in found.planes for each in one.lines)


# ------------------------------------------------------------------------------------------------ real files


@with_corpus
@pytest.mark.parametrize("path", WHOLE_FILES, ids=lambda path: path.relative_to(CORPUS).as_posix())
def test_real_files_against_plain_decoding(path: Path) -> None:
    data = path.read_bytes()
    found = read(data, str(path))
    assert oracle.check(data, found, (*INTEGERS, *TEXTS)) > 0
    whole = oracle.XSpace.FromString(data)
    stated = {one.name for one in whole.planes} & {b"Task Environment"}
    assert (found.start_ns is not None) == bool(stated)


@with_corpus
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CORPUS).as_posix())
def test_real_files_are_recognised(path: Path) -> None:
    assert looks_like(path.read_bytes()[:HEAD])


@with_corpus
def test_other_files_are_not_taken() -> None:
    others = [path for path in CORPUS.rglob("*") if path.is_file() and not path.name.endswith(".xplane.pb")]
    assert len(others) > 100
    taken = []
    for path in others:
        with path.open("rb") as file:
            taken += [path] if looks_like(file.read(HEAD)) else []
    assert taken == []


@with_corpus
def test_programs_in_a_profile_are_no_profiles() -> None:
    found = read((CORPUS / "xla/jax_cpu_train8_nopy.xplane.pb").read_bytes(), "")
    metadata = next(one for one in found.planes if one.name == "/host:metadata").metadata.values()
    programs = [value for kind in metadata for value in kind.stats.values() if isinstance(value, bytes)]
    assert len(programs) > 5
    assert not any(looks_like(program[:HEAD]) for program in programs)


@with_corpus
def test_a_file_that_was_copied_as_text() -> None:
    kind, message, hint = refusal((CORPUS / "xla" / MANGLED).read_bytes())
    assert (kind, "Wire format" in message, "as text" in hint) == ("corrupt_input", True, True)


@with_corpus
def test_a_file_that_was_cut() -> None:
    data = (CORPUS / "hard_inputs/xplane-truncated/host.xplane.pb").read_bytes()
    kind, message, _ = refusal(data)
    assert (kind, len(data)) == ("truncated_input", 459)
    assert "byte 459: truncated: the plane that starts at byte 0" in message


def test_the_file_that_is_measured(tmp_path: Path) -> None:
    """The writer of the benchmark, in which there are all kinds of lines."""
    bench = runpy.run_path(str(ROOT / "tests/bench/xplane.py"))
    path = tmp_path / "bench.xplane.pb"
    bench["write"](path, 9_000)
    data = path.read_bytes()
    found = read(data, str(path))
    assert oracle.check(data, found, (*INTEGERS, *TEXTS)) == 4 * bench["PER_STEP"] + 1
    assert (found.start_ns, found.hostnames) == (bench["START_NS"], ("bench-host",))
    assert looks_like(data[:HEAD])


# ----------------------------------------------------------------------------------------------- recognition


@pytest.mark.parametrize(
    ("head", "taken"),
    [
        (WHOLE, True),
        (WHOLE[:40], True),
        (WHOLE[:12], True),  # cut within the name of the first plane
        (space(plane("Task Environment")), True),
        (space(plane(), plane()), True),
        (space(errors=[b"No profile: the device\nis busy"]), True),
        (space(errors=[b"e"], warnings=["Gerät".encode()], hostnames=[b"tpu-vm.a:1"]), True),
        (space(hostnames=[b"host"]), True),
        (b"", False),
        (b"\x0a", False),
        (b"\x0a\x00", False),
        (space({}), False),  # a plane that says nothing
        (space({"name": b"\xff\xfe\xfd"}), False),
        (space({"name": b"a\x00b"}), False),
        (space({"name": b"x" * 400}), False),
        (b'{"traceEvents": []}', False),
        (b'"Kernel","Time"\n"a","1"\n', False),
        (b"\x1f\x8b\x08\x00", False),
        (b"SQLite format 3\x00", False),
        (b"\x0a\x06\x0a\x04main", False),  # an HloProto: a module with a name
        (b"\x0a\x04main\x12\x04main\x1a\x02ab", False),  # an HloModuleProto
        (b"\x0a\x04\x08\x01\x10\x02\x12\x04\x08\x01\x10\x02", False),  # a profile of pprof
        (b"\x12\x04\x08\x01\x10\x02", False),
        (b"\x22\x0ba,b\nc,d\ne,f", False),
        (b"\x0a\x0c\x12\x03abc\x12\x05again", False),  # two names
    ],
)
def test_recognition(head: bytes, taken: bool) -> None:
    assert looks_like(head) is taken


@given(st.binary(max_size=60))
def test_recognition_of_anything(head: bytes) -> None:
    assert looks_like(head) in (True, False)


def test_recognition_loads_nothing_heavy() -> None:
    root = Path(xplane_sniff.__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import mpg_parsers.xla.xplane_sniff; "
    code += "print([m for m in sys.modules if m.partition('.')[0] in ('google', 'polars')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "[]\n"


# ---------------------------------------------------------------------------------------------------- planes


def test_a_small_file() -> None:
    found = read(memoryview(WHOLE), "p")
    assert [one.name for one in found.planes] == ["/device:TPU:0", "/host:CPU", "Task Environment"]
    assert (found.start_ns, found.stop_ns, found.capped) == (5, 9, False)
    assert (found.hostnames, found.errors, found.warnings) == (("h0", "h1"), ("no device",), ("dropped",))
    first, second = found.planes[0].lines
    assert (first.id, first.name, first.timestamp_ns, first.count) == (7, "main", 40, 3)
    assert first.events(()).rows() == [(1, 0, 5), (1, 10, 5), (1, 20, 5)]
    assert (second.name, second.count, second.events(("id",)).rows()) == ("d", 0, [])
    assert found.planes[0].stats == {"peak": 1.5}
    assert found.planes[1].metadata[1].name == "op"
    assert oracle.check(WHOLE, found, ()) == 3


def test_planes_without_times() -> None:
    found = read(space(plane("Task Environment", {"profile_start_time": {"str_value": b"now"}})), "p")
    assert (found.start_ns, found.stop_ns) == (None, None)


def test_ids_and_references() -> None:
    """Ids mean something within a plane only; a reference to nothing is an empty text, no name no stat."""
    names = {"a": {"ref_value": 2}, "b": {"ref_value": 99}, "": {"int64_value": 4}}
    other = plane("/host:2", {"x": {"ref_value": 1}, "y": {"int64_value": -1}, "z": {}})
    other["stats"].append({"metadata_id": 77, "int64_value": 1})
    found = read(space(plane("/host:1", names), other), "p")
    assert [one.stats for one in found.planes] == [{"a": "b", "b": ""}, {"x": "x", "y": -1}]


def test_kinds_of_events() -> None:
    kinds = [
        {"key": 1, "value": {"name": b"first"}},
        {"key": 2, "value": {"name": b"\xffop", "display_name": b"op", "stats": [{"metadata_id": 1, "ref_value": 1}]}},
        {"key": 1, "value": {"name": b"last"}},
        {"key": -3},
    ]  # fmt: skip
    metadata = (
        read(space(plane(stats={"s": {"bytes_value": b"\x00\xff"}}, event_metadata=kinds)), "p")
        .planes[0]
        .metadata
    )
    assert {key: kind.name for key, kind in metadata.items()} == {1: "last", 2: "�op", -3: ""}
    assert (metadata[2].display_name, metadata[2].stats) == ("op", {"s": "s"})
    assert metadata[2] is metadata[2]
    assert metadata.get(4) is None


def test_values_of_stats() -> None:
    values = {"u": {"uint64_value": 2**64 - 1}, "i": {"int64_value": -5}, "d": {"double_value": 0.5},
              "s": {"str_value": b"a\xff"}, "b": {"bytes_value": b"a\xff"}, "e": {"str_value": b""}}  # fmt: skip
    found = read(space(plane(stats=values)), "p").planes[0].stats
    assert found == {"u": 2**64 - 1, "i": -5, "d": 0.5, "s": "a�", "b": b"a\xff", "e": ""}


def test_fields_in_another_order() -> None:
    """Names and numbers may come after the lines that use them, and between lines."""
    parts = [
        oracle.XPlane(lines=[line(1, name=b"a")]),
        oracle.XPlane(stat_metadata=[{"key": 1, "value": {"name": b"run_id"}}]),
        oracle.XPlane(lines=[line(2, name=b"b")], name=b"late"),
    ]
    content = b"".join(part.SerializeToString() for part in parts)
    data = b"\x0a" + bytes([len(content)]) + content
    found = read(data, "p")
    assert (found.planes[0].name, [(each.name, each.count) for each in found.planes[0].lines]) == (
        "late", [("a", 1), ("b", 2)],
    )  # fmt: skip
    assert oracle.check(data, found, ("run_id",)) == 3


def test_unknown_fields_are_skipped() -> None:
    extra = (
        b"\x78\x05" + b"\x7a\x01x" + b"\x79" + bytes(8) + b"\x7d" + bytes(4)
    )  # of field 15, each wire type
    found = read(extra + WHOLE + extra, "p")
    assert len(found.planes) == 3


# ---------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("size", range(1, len(WHOLE), 7))
def test_a_cut_file(size: int) -> None:
    """A cut between two fields of the file cannot be seen; any other is told from damage."""
    ends = {span.stop for span in spans(WHOLE, 0, len(WHOLE))}
    if size in ends:
        return
    kind, message, hint = refusal(WHOLE[:size])
    assert (kind, f"byte {size}: truncated" in message, bool(hint)) == ("truncated_input", True, True)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00\x01", "byte 0: Wire format is damaged: 0 is no number of a field"),
        (b"\x0b", "byte 0: Wire format is damaged: 3 is no type of a field"),
        (
            WHOLE + b"\x08" + b"\xff" * 11,
            f"byte {len(WHOLE)}: Wire format is damaged: a number of more than 10",
        ),
        (b"\x0a\x02\x12\x05", "byte 2: Wire format is damaged: the plane that starts at byte 0"),
        (b"\x0a\x04\x22\x02\x08\x80", "byte 0: Wire format is damaged: the plane that starts at byte 0"),
    ],
)
def test_damage(data: bytes, words: str) -> None:
    kind, message, hint = refusal(data)
    assert (kind, words in message, bool(hint)) == ("corrupt_input", True, True), message


def test_a_damaged_line_fails_when_it_is_decoded() -> None:
    good = oracle.XLine(**line(2)).SerializeToString()
    for bad in (good + b"\x22\x05\x08", good + b"\x22\x02\x08\x80", b"\x07" + good):
        lines = b"".join(b"\x1a" + bytes([len(each)]) + each for each in (good, bad))
        content = b"\x12\x02/d" + lines
        found = read(b"\x0a" + bytes([len(content)]) + content, "p.pb")
        assert found.planes[0].lines[0].events(()).height == 2
        with pytest.raises(InputError) as caught:
            found.planes[0].lines[1].events(())
        assert caught.value.kind == "corrupt_input"
        assert caught.value.message.startswith("p.pb: plane '/d', line ")


def test_copied_as_text() -> None:
    """Numbers above 127 were replaced, so that lengths are wrong; whatever breaks first, the reason is said."""
    data = space(plane(lines=[line(90)])).decode("utf-8", "replace").encode()
    assert refusal(data)[0] == "corrupt_input"
    assert "as text" in refusal(data)[2]
    assert looks_like(data)


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xplane, "LARGEST", len(WHOLE) - 1)
    assert refusal(WHOLE)[0] == "unsupported_format"
    assert "record a shorter time" in refusal(WHOLE)[2]
    monkeypatch.setattr(xplane, "LARGEST", len(WHOLE))
    monkeypatch.setattr(xplane, "LARGEST_MESSAGE", 20)
    kind, message, _ = refusal(WHOLE)
    assert (kind, "a plane without its lines" in message) == ("unsupported_format", True)


def test_protobuf_in_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_implementation, "Type", lambda: "python")
    kind, message, hint = refusal(WHOLE)
    assert (kind, "minutes" in message) == ("unsupported_format", True)
    assert "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION" in hint


@given(st.data())
def test_damaged_bytes_never_give_anything_but_an_input_error(data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        end = at + data.draw(st.integers(0, 3))
        content[at:end] = data.draw(st.binary(max_size=3))
    looks_like(bytes(content))
    kinds = []
    try:
        read_all(bytes(content))
    except InputError as error:
        kinds = [error.kind]
    assert kinds in ([], ["truncated_input"], ["corrupt_input"])


# ----------------------------------------------------------------------------------------------- wire format


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", []),
        (b"\x08\x96\x01", [(1, 0, 0, 1, 3)]),
        (b"\x12\x02ab\x1d1234", [(2, 2, 0, 2, 4), (3, 5, 4, 5, 9)]),
        (b"\x82\x01\x00\x19" + bytes(8), [(16, 2, 0, 3, 3), (3, 1, 3, 4, 12)]),
        (b"\x8a\x00\x01x", [(1, 2, 0, 3, 4)]),  # a tag of more bytes than it needs
    ],
)
def test_spans(data: bytes, found: list[tuple[int, ...]]) -> None:
    assert [tuple(span) for span in spans(data, 0, len(data))] == found


@pytest.mark.parametrize("data", [b"\x08", b"\x12", b"\x12\x02a", b"\x12\x80", b"\x19123", b"\x80"])
def test_spans_of_cut_data(data: bytes) -> None:
    with pytest.raises(CutError):
        list(spans(data, 0, len(data)))


@pytest.mark.parametrize("data", [b"\x00\x00", b"\x0c", b"\x0e", b"\x0f", b"\x80" * 11])
def test_spans_of_damaged_data(data: bytes) -> None:
    with pytest.raises(WireError) as caught:
        list(spans(data, 0, len(data)))
    assert not isinstance(caught.value, CutError)


def test_classes() -> None:
    made = classes("tests.made", {
        "Inner": (Field("n", 3, "sint32"), Field("t", 4, "string", oneof="x"), Field("u", 5, "bool", oneof="x")),
        "Outer": (Field("inner", 1, "Inner", repeated=True), Field("many", 2, "int64", repeated=True)),
    })  # fmt: skip
    outer = made["Outer"].FromString(b"\x0a\x05\x18\x03\x22\x01a\x12\x02\x01\x02\x10\x03\x98\x06\x01")
    assert (outer.inner[0].n, outer.inner[0].WhichOneof("x"), list(outer.many)) == (-2, "t", [1, 2, 3])
    assert not made["Inner"].FromString(b"\x22\x01a\x28\x01").HasField("t")
