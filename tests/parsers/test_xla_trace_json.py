"""The Chrome JSON of XLA: tiny documents with known rows, a slow oracle, and an xplane file of the same run."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.chrome import blocks
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.xla import trace_json, trace_json_events
from mpg_parsers.xla.space import INTEGERS, TEXTS, Space
from mpg_parsers.xla.trace_json import looks_like, read
from tests.mpg_cli.running import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CORPUS = ROOT.parent / "shared/corpus"
REAL = [
    CORPUS / "xla/vllm_tpu_1.trace.json.gz",
    CORPUS / "xla/vllm_tpu_3.trace.json.gz",
    CORPUS / "xla/jax_cpu_train8.trace.json.gz",
    CORPUS / "hard_inputs/jax-trace-json-gpu/host.trace.json.gz",
]
STATS = (*INTEGERS, *TEXTS)
PROCESS = '{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}}'
THREAD = '{"ph":"M","pid":3,"tid":2,"name":"thread_name","args":{"name":"XLA Ops"}}'
HEADER = '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":['
# what the one part of the exporter that JAX used until 2023 writes
OLD_HEADER = '{"displayTimeUnit":"ns","traceEvents":['


def content(path: Path) -> bytes:
    if not path.exists():
        pytest.skip(f"{path.name} is not in this checkout: real traces lie in ../shared/corpus")
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def trace(*events: str, header: str = HEADER) -> bytes:
    return (header + ",".join((*events, "{}")) + "]}").encode()


def op(text: str = "", *, ts: str = "1.5", dur: str = "2.25", name: str = "fusion.1", where: str = "") -> str:
    args = f',"args":{{{text}}}' if text else ""
    return f'{{"ph":"X",{where or PLACE},"ts":{ts},"dur":{dur},"name":"{name}"{args}}}'


PLACE = '"pid":3,"tid":2'


def parse(data: bytes) -> tuple[Space, list[Notice]]:
    return read(io.BytesIO(data), "file")


def space_of(*events: str) -> Space:
    space, notices = parse(trace(PROCESS, THREAD, *events))
    assert notices == []
    return space


def events_of(*events: str, stats: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    """Rows of the one line."""
    (plane,) = space_of(*events).planes
    (line,) = plane.lines
    assert line.count == len(events)
    return line.events(stats).rows()


# ---- times ----


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("8.6959999999999997", 8_696_000),  # 8.696 with 17 digits
        ("1217669.3599870001", 1_217_669_359_987),
        ("9.9999999999999995e-07", 1),
        ("1.7e-05", 17),
        ("0.0", 0),
        ("0", 0),
        ("12", 12_000_000),
        ("1E3", 1_000_000_000),
        ("9007199254.7409935", 9_007_199_254_740_994),  # beyond what a double holds
        ("9007199254740993.000001", None),  # above 2**62 ps
        ('"2.5"', 2_500_000),
        ("true", None),
        ("null", None),
        ("[1]", None),
        ("1e400", None),
    ],
)
def test_times_come_from_the_text(text: str, ps: int | None) -> None:
    assert trace_json_events.picoseconds([text.encode()]).to_list() == [ps]


@given(st.lists(st.integers(0, (1 << 33) * 10**6 - 1), min_size=1))
def test_what_the_exporter_writes_gives_back_the_picosecond(times: list[int]) -> None:
    texts = [f"{ps / 1e6:.17g}".encode() for ps in times]
    assert trace_json_events.picoseconds(texts).to_list() == times


def test_the_shortest_duration_stands_for_none() -> None:
    found = events_of(op(dur="9.9999999999999995e-07"), op(dur="1.9999999999999999e-06"))
    assert [row[2] for row in found] == [0, 2]


# ---- stats and metadata ----


def test_stats_of_events() -> None:
    text = '"device_offset_ps":"9223372036854775807","hlo_op":"dot.1","run_id":"18446744073709551615","x":"7"'
    stats = ("run_id", "device_offset_ps", "hlo_op", "step_num", "nvtx_range")
    expected = (0, 1_500_000, 2_250_000, -1, 9223372036854775807, "dot.1", None, None)
    assert events_of(op(text), stats=stats) == [expected]


@pytest.mark.parametrize(
    ("value", "run_id"),
    [
        ('"7"', 7),
        ("7", 7),
        ('"-7"', -7),
        ('"9223372036854775808"', -(1 << 63)),
        ('"x"', None),
        ('""', None),
        ("null", None),
        ("1.5", None),
        ('"18446744073709551616"', None),
        ("[1]", None),
        ("true", None),
    ],
)
def test_integers(value: str, run_id: int | None) -> None:
    ((*_, found),) = events_of(op(f'"run_id":{value}'), stats=("run_id",))
    assert found == run_id


def test_types_of_columns_do_not_depend_on_what_is_there() -> None:
    schema = {name: pl.Int64 if name in INTEGERS else pl.String for name in STATS}
    times = dict.fromkeys(("metadata", "offset_ps", "dur_ps"), pl.Int64)
    for events in ((), (op(),), (op('"run_id":"1","hlo_op":"x"'),)):
        (line,) = space_of(*events).planes[0].lines
        assert line.events(STATS).schema == times | schema


def test_constants_are_metadata() -> None:
    text = (
        '"Time Scale Multiplier":"1","bytes_accessed":"1048","hlo_category":"convolution fusion",'
        '"long_name":"%fusion.1 = f32[] fusion()","memory_access_breakdown":"<opaque bytes>",'
        '"model_flops":"1.23457e+09","raw_bytes_accessed":"x","shape_with_layout":"f32[]{}",'
        '"source":"<opaque bytes>","tf_op":"jit(f)/dot:"'
    )
    space = space_of(op(text))
    ((metadata, _, _, bytes_, tf_op),) = (
        space.planes[0].lines[0].events(("bytes_accessed", "tf_op")).iter_rows()
    )
    about = space.planes[0].metadata[metadata]
    assert (about.name, about.display_name) == ("%fusion.1 = f32[] fusion()", "fusion.1")
    assert about.stats == {
        "bytes_accessed": 1048,
        "hlo_category": "convolution fusion",
        "model_flops": 1.23457e9,
        "shape_with_layout": "f32[]{}",
        "tf_op": "jit(f)/dot:",
    }
    assert (bytes_, tf_op) == (1048, "jit(f)/dot:")  # the file does not tell which of both they were


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([op(), op(ts="9")], [0, 0]),
        ([op(), op('"run_id":"1"')], [0, 0]),  # no constant
        ([op('"run_id":"1"'), op()], [0, 0]),
        ([op(name="a"), op(name="b"), op(name="a")], [0, 1, 0]),
        ([op('"model_flops":"1"'), op('"model_flops":"2"'), op()], [0, 1, 2]),  # two programs, one name
        ([op('"long_name":"%f = 1"'), op('"long_name":"%f = 2"')], [0, 1]),
    ],
)
def test_kinds(events: list[str], kinds: list[int]) -> None:
    found = [row[0] for row in events_of(*events)]
    codes = {key: number for number, key in enumerate(dict.fromkeys(found))}
    assert [codes[key] for key in found] == kinds


def test_planes_do_not_share_metadata() -> None:
    other = PROCESS.replace('"pid":3', '"pid":4').replace("TPU:0", "TPU:1")
    space, _ = parse(trace(PROCESS, other, op(), op(where='"pid":4,"tid":2')))
    assert [list(plane.metadata) for plane in space.planes] == [[0], [1]]
    assert [plane.metadata[key].name for key, plane in enumerate(space.planes)] == ["fusion.1"] * 2


# ---- planes and lines ----


def test_lines_are_threads_in_the_order_of_the_file() -> None:
    data = trace(
        PROCESS.replace('"pid":3', '"pid":701').replace("/device:TPU:0", "/host:CPU"),
        THREAD.replace("XLA Ops", "Async XLA Ops").replace('"tid":2', '"tid":4'),
        THREAD,
        PROCESS,
        '{"ph":"M","pid":3,"name":"process_sort_index","args":{"sort_index":3}}',
        '{"ph":"M","pid":3,"tid":2,"name":"thread_sort_index","args":{"sort_index":2}}',
        op(ts="5"),
        op(where='"pid":701,"tid":4162482809'),
        op(ts="4"),
        op(where='"pid":9,"tid":0'),
        "null",
    )
    space, notices = parse(data)
    assert notices == []
    assert [
        (plane.name, [(line.id, line.name, line.timestamp_ns, line.count) for line in plane.lines])
        for plane in space.planes
    ] == [
        ("/host:CPU", [(4162482809, "", 0, 1)]),
        ("/device:TPU:0", [(4, "Async XLA Ops", 0, 0), (2, "XLA Ops", 0, 2)]),
        ("", [(0, "", 0, 1)]),
    ]
    assert space.planes[1].lines[1].events(())["offset_ps"].to_list() == [5_000_000, 4_000_000]
    assert space.planes[1].lines[0].events(("run_id",)).rows() == []
    assert all(plane.stats == {} for plane in space.planes)
    assert (space.start_ns, space.stop_ns, space.hostnames, space.capped) == (None, None, (), False)


def test_other_phases_are_ignored() -> None:
    rest = f'{PLACE},"ts":1,"id":7,"name":"x"}}'
    found, notices = parse(trace(PROCESS, THREAD, op(), *(f'{{"ph":"{ph}",{rest}' for ph in "stfCibenBE")))
    assert [line.count for line in found.planes[0].lines] == [1]
    assert notices == []


@pytest.mark.parametrize(
    "event",
    [
        op(ts="null"),
        op(dur="-1"),
        f'{{"ph":"X",{PLACE},"ts":1,"name":"x"}}',
        op(where='"pid":3'),
        op(where='"tid":3'),
        op(where='"pid":"a","tid":2'),
        op(where='"pid":3,"tid":9223372036854775808'),
        op(where='"pid":3,"tid":true'),
    ],
)
def test_events_without_time_or_place_are_dropped(event: str) -> None:
    space, notices = parse(trace(PROCESS, THREAD, event, op()))
    assert [line.count for line in space.planes[0].lines] == [1]
    assert [(notice.kind, notice.count, notice.source) for notice in notices] == [
        ("dropped_events", 1, "file")
    ]


def test_unusual_values_lose_no_event() -> None:
    """One event of a shape the exporter does not write, and those around it."""
    data = [op('"run_id":"1"'), op('"run_id":2,"hlo_op":{"a":1},"name":5'), op(name="x").replace('"x"', "7")]
    assert [row[3:] for row in events_of(*data, stats=("run_id", "hlo_op", "name"))] == [
        (1, None, None),
        (2, None, "5"),
        (None, None, None),
    ]
    assert {about.name for about in space_of(*data).planes[0].metadata.values()} == {"fusion.1", "7"}


@pytest.mark.parametrize(("events", "capped"), [(4, False), (5, True), (6, True)])
def test_the_limit_of_the_exporter(events: int, capped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_json, "MAX_EVENTS", 5)
    assert space_of(*[op()] * events).capped == capped


# ---- damage and limits ----


def error_of(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse(data)
    assert caught.value.hint
    return caught.value.kind


def test_processes_of_other_profilers() -> None:
    assert error_of(trace(PROCESS.replace("/device:TPU:0", "python"), op())) == "unsupported_format"
    assert error_of(trace(op())) == "unsupported_format"
    assert error_of(b"") == "empty_input"
    assert error_of(b"hello") == "not_a_trace"


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [op(where=f'"pid":3,"tid":{number}') for number in range(4)]
    with monkeypatch.context() as patch:
        patch.setattr(trace_json_events, "MAX_THREADS", 3)
        assert error_of(trace(PROCESS, *threads)) == "unsupported_format"
        named = [THREAD.replace('"tid":2', f'"tid":{number}') for number in range(4)]
        assert error_of(trace(PROCESS, *named)) == "unsupported_format"
    with monkeypatch.context() as patch:
        patch.setattr(trace_json_events, "MAX_BYTES", 100)
        assert error_of(trace(PROCESS, *threads)) == "unsupported_format"


def test_a_file_that_ends_within_an_event() -> None:
    whole = trace(PROCESS, THREAD, op(), op())
    space, notices = parse(whole[: whole.rindex(b'"dur"')])
    assert [line.count for line in space.planes[0].lines] == [1]
    assert [notice.kind for notice in notices] == ["truncated_input"]


def test_a_damaged_character_is_repaired() -> None:
    space, notices = parse(trace(PROCESS, THREAD, op(), op(name="a\x01b")))
    assert [line.count for line in space.planes[0].lines] == [2]
    assert [notice.kind for notice in notices] == ["repaired_input"]


SMALL = trace(PROCESS, THREAD, op(), op('"run_id":"7","hlo_op":"dot"', name="dot"), op('"step_num":"1"'))
KINDS_OF_DAMAGE = ("corrupt_input", "truncated_input", "not_a_trace", "empty_input", "unsupported_format")


@given(
    st.integers(0, len(SMALL)),
    st.integers(0, 20),
    st.one_of(st.binary(max_size=6), st.sampled_from([b'"', b"{", b"}", b"]", b",", b"-", b"9" * 400])),
)
def test_damage_gives_a_space_or_an_input_error(at: int, length: int, put: bytes) -> None:
    data = SMALL[:at] + put + SMALL[at + length :]
    try:
        space, _ = parse(data)
    except InputError as error:
        if error.kind not in KINDS_OF_DAMAGE:
            raise
        return
    for plane in space.planes:
        for line in plane.lines:
            rows = line.events(STATS)
            assert rows.height == line.count
            assert (rows["dur_ps"] >= 0).all()
            assert set(rows["metadata"]) <= set(plane.metadata)


@given(st.integers(0, len(SMALL)))
def test_any_beginning_of_a_file(length: int) -> None:
    try:
        space, notices = parse(SMALL[:length])
    except InputError:
        assert b'"dur"' not in SMALL[:length]  # nothing that ran was read whole
        return
    assert notices or length == len(SMALL)
    assert sum(line.count for plane in space.planes for line in plane.lines) <= 3


# ---- what the file is ----


@pytest.mark.parametrize(
    "text",
    [
        HEADER + PROCESS,
        OLD_HEADER + PROCESS,
        OLD_HEADER + PROCESS.replace("/device:TPU:0", "/host:CPU"),
        OLD_HEADER + json.dumps(json.loads(PROCESS), sort_keys=True),  # args, name, ph, pid
        OLD_HEADER + json.dumps(json.loads(PROCESS), indent=4),
        "[" + PROCESS,
        HEADER + op(),  # names that come later
        OLD_HEADER + op('"hlo_op":"dot.1"'),
        HEADER + THREAD + "," + PROCESS,
    ],
)
def test_signs(text: str) -> None:
    assert looks_like(text.encode())
    assert looks_like(text.encode("utf-8-sig"))
    assert looks_like(text.encode("utf-16"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        HEADER,
        "x" + PROCESS,
        OLD_HEADER + op(),
        OLD_HEADER + PROCESS.replace("/device:TPU:0", "python"),
        OLD_HEADER
        + '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"hlo_op":"x"}}',
        HEADER + '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}',
        OLD_HEADER + op(name=r"\"process_name\",\"args\":{\"name\":\"/device:TPU:0\"}"),
        '{"schemaVersion":1,"traceEvents":[{"ph":"M","pid":0,"name":"process_labels","args":{"labels":"GPU 0"}}',
        # TensorFlow's timeline
        '[{"ph":"M","pid":0,"name":"process_name","args":{"name":"/job:localhost/device:GPU:0 Compute"}}',
    ],
)
def test_other_json(text: str) -> None:
    assert not looks_like(text.encode())


def heads() -> Iterator[tuple[Path, bytes]]:
    """The first 64 KiB of all JSON of other profilers."""
    for folder in ("pytorch", "hard_inputs", "nsight"):
        for path in sorted((CORPUS / folder).rglob("*.json*")):
            with path.open("rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
            with gzip.open(path) if packed else path.open("rb") as file:
                try:
                    yield path, file.read(1 << 16)
                except EOFError:  # a file that is cut on purpose
                    continue


def test_real_files_of_other_profilers() -> None:
    found = Counter(looks_like(head) for path, head in heads() if path not in REAL)
    if not found:
        pytest.skip(f"the corpus of real traces is not at {CORPUS}")
    assert found[True] == 0
    assert found[False] > 150


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_files(path: Path) -> None:
    assert looks_like(content(path)[: 1 << 16])
    events = content(path)
    assert looks_like(OLD_HEADER.encode() + events[events.index(b"[") + 1 :][: 1 << 16])


# ---- against oracles ----


def oracle(data: bytes) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """The rows of each line: names, times and stats, by a plain JSON parser and decimal arithmetic."""
    names, lines = {}, {}
    for event in json.loads(data, parse_float=Decimal)["traceEvents"]:
        if event.get("name") == "process_name":
            names[event["pid"]] = event["args"]["name"]
        if event.get("ph") == "X":
            args = event.get("args", {})
            times = [
                int((Decimal(event[key]) * 10**6).quantize(Decimal(1), ROUND_HALF_EVEN))
                for key in ("ts", "dur")
            ]
            stats = [
                int(args[name]) if name in args and name in INTEGERS else args.get(name) for name in STATS
            ]
            constants = [args.get(name) for name in trace_json_events.CONSTANTS if name != "long_name"]
            shown = (args["long_name"], event["name"]) if "long_name" in args else (event["name"], "")
            row = (*shown, times[0], 0 if times[1] == 1 else times[1], *stats, *constants)
            lines.setdefault((names[event["pid"]], event["tid"]), []).append(row)
    return lines


def flat(space: Space) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """The same of a space."""
    constants = [name for name in trace_json_events.CONSTANTS if name != "long_name"]
    lines = {}
    for plane in space.planes:
        about = {
            key: (
                kind.name,
                kind.display_name,
                [None if (value := kind.stats.get(name)) is None else str(value) for name in constants],
            )
            for key, kind in plane.metadata.items()
        }
        assert len({str(value) for value in about.values()}) == len(about)
        for line in plane.lines:
            if line.count:
                lines[plane.name, line.id] = [
                    (*about[key][:2], *rest, *about[key][2]) for key, *rest in line.events(STATS).iter_rows()
                ]
    return lines


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_files_against_the_oracle(path: Path) -> None:
    data = content(path)
    space, notices = parse(data)
    assert notices == []
    assert flat(space) == oracle(data)


@pytest.mark.parametrize(("block", "rows"), [(300, 1), (5000, 7), (1 << 19, 100)])
def test_blocks_change_nothing(block: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    initialise = blocks.BlockReader.__init__
    monkeypatch.setattr(
        blocks.BlockReader, "__init__", lambda self, stream, _: initialise(self, stream, block)
    )
    monkeypatch.setattr(trace_json_events, "FLUSH_ROWS", rows)
    threads = [
        op(f'"run_id":"{n}"' if n % 3 else "", ts=str(n), where=f'"pid":3,"tid":{n % 2}') for n in range(200)
    ]
    data, calls = trace(PROCESS, *threads), []
    space, notices = read(io.BytesIO(data), "file", lambda: calls.append(1))
    assert flat(space) == oracle(data)
    assert notices == []
    assert len(calls) >= len(data) // (block + blocks.LOOK_AHEAD)


# ---- the same run as an xplane file ----


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of the fields of a protobuf message, values as integers or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            size = varint() if tag & 7 == 2 else 8
            yield tag >> 3, data[at : at + size]
            at += size


def named(entry: bytes) -> tuple[int, str]:
    """Key and name of an entry of event_metadata or stat_metadata."""
    found = dict(fields(entry))
    return found.get(1, 0), dict(fields(found[2])).get(2, b"").decode()


@cache
def xplane(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Name, start, duration and stats of the events of each line of the host's plane, in ps after the start."""
    planes = [list(fields(plane)) for number, plane in fields(content(path)) if number == 1]
    (plane,) = [plane for plane in planes if (2, b"/host:CPU") in plane and any(n == 3 for n, _ in plane)]
    events, stats = (dict(named(value) for number, value in plane if number == kind) for kind in (4, 5))
    lines = {}
    for line in (list(fields(value)) for number, value in plane if number == 3):
        start = dict(line).get(3, 0) * 1000
        rows = [xplane_event(value, start, events, stats) for number, value in line if number == 4]
        lines[dict(line)[2].decode()] = (dict(line)[1], rows)
    return lines


def xplane_event(data: bytes, start: int, events: dict[int, str], stats: dict[int, str]) -> tuple[Any, ...]:
    event = list(fields(data))
    found = {}
    for number, value in event:
        if number == 4:
            stat = dict(fields(value))
            (kind,) = stat.keys() - {1}
            text = {5: lambda v: v.decode(), 7: stats.get}.get(kind, lambda v: v)
            found[stats[stat[1]]] = text(stat[kind])
    once = dict(event)
    shown = [found.get(name) for name in SHOWN]
    return (events[once[1]], start + once.get(2, 0), once.get(3, 0), *shown)


SHOWN = ("run_id", "step_num", "device_ordinal", "hlo_op", "hlo_module", "name")


def test_the_same_run_as_an_xplane() -> None:
    expected = xplane(CORPUS / "xla/jax_cpu_train8.xplane.pb")
    space, _ = parse(content(CORPUS / "xla/jax_cpu_train8.trace.json.gz"))
    (plane,) = space.planes
    names = {key: about.name for key, about in plane.metadata.items()}
    found = {
        line.name: (line.id, [(names[key], *rest) for key, *rest in line.events(SHOWN).iter_rows()])
        for line in plane.lines
    }
    assert found.keys() == expected.keys()
    for name, (number, rows) in expected.items():
        assert found[name][0] == number & 0xFFFFFFFF  # the exporter keeps 32 bits
        assert found[name][1] == rows
    assert sum(line.count for line in plane.lines) == 60_797
