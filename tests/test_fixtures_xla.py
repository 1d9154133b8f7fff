"""fixtures/xla: the files are stable, and an independent count over them agrees with their truth.

Read with `fixtures/xla/reader.py`, which shares nothing with the code under test.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import pytest

from fixtures.xla.generate import generate
from fixtures.xla.micro import CASES
from fixtures.xla.reader import (
    Fields,
    Interval,
    fields,
    figures,
    gpu_spans,
    nanoseconds,
    numbers,
    one,
    planes,
    streams,
    tpu_spans,
)  # fmt: skip
from fixtures.xla.tpu_trace import AHEAD
from fixtures.xla.writer import Plane, Ref, Unsigned, block, double, number, packed, space, varint

ROOT = Path(__file__).parents[1] / "fixtures" / "xla"
GENERATED = {"tpu_train": "tpu-host-0", "gpu_jax": "gpu-host-0"}


@cache
def load(folder: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    data = (ROOT / folder / f"{GENERATED[folder]}.xplane.pb").read_bytes()
    return planes(data), json.loads((ROOT / folder / "truth.json").read_text())


# ---------------------------------------------------------------------------------------------------- counting


def steps_of(read: dict[str, Any]) -> list[Interval]:
    marks = [e for e in read["/host:CPU"]["lines"]["python"] if e["stats"].get("_r") == 1]
    assert [event["stats"]["step_num"] for event in marks] == list(range(len(marks)))
    return nanoseconds(marks)


# --------------------------------------------------------------------------------------------------- the writer


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), ((1 << 63) - 1, "ffffffffffffffff7f"),
        ((1 << 64) - 1, "ffffffffffffffffff01"), (-1, "ffffffffffffffffff01"), (-(1 << 63), "80808080808080808001"),
    ],
)  # fmt: skip
def test_varint(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_fields() -> None:
    assert number(1, 150).hex() == "089601"  # the example in protobuf's own description of the encoding
    assert block(2, "testing").hex() == "120774657374696e67"
    assert packed(6, [3, 270, 86942]).hex() == "3206038e029ea705"
    assert packed(6, []) == b""
    assert double(2, 1.0).hex() == "11000000000000f03f"


def test_a_plane_read_back() -> None:
    made = Plane("/device:TPU:0", 7, {"peak": 459.0}, first_key=3)
    line = made.line("XLA Ops", 3, 1_000)
    key = made.metadata("%fusion = f32[]", "fusion", {"flops": -5, "blob": b"\xff"})
    line.add(key, 2_000, 500, {"run_id": Unsigned((1 << 64) - 1), "hlo_op": Ref("fusion")})
    line.add("other", 0, 0)
    read = planes(space([made], ["h0"], ["e"], ["w"]))["/device:TPU:0"]
    first, second = read["lines"]["XLA Ops"]
    assert (first["start"], first["end"], first["display"]) == (1_002_000, 1_002_500, "fusion")
    assert first["stats"] == {"run_id": (1 << 64) - 1, "hlo_op": "fusion"}
    assert first["shared"] == {"flops": -5, "blob": b"\xff"}
    assert (second["name"], second["start"], second["end"]) == ("other", 1_000_000, 1_000_000)
    assert read["stats"] == {"peak": 459.0}
    assert sorted(read["kinds"]) == [3, 4]


def test_the_same_files_every_time(tmp_path: Path) -> None:
    generate(tmp_path)
    for folder, name in GENERATED.items():
        for file in (f"{name}.xplane.pb", "truth.json"):
            assert (tmp_path / folder / file).read_bytes() == (ROOT / folder / file).read_bytes()
        assert (ROOT / folder / f"{name}.xplane.pb").stat().st_size < 300_000


# --------------------------------------------------------------------------------------------------- both files


@pytest.mark.parametrize("folder", GENERATED)
def test_devices_and_steps(folder: str) -> None:
    read, truth = load(folder)
    spans_of, prefix = (tpu_spans, "/device:TPU:") if folder == "tpu_train" else (gpu_spans, "/device:GPU:")
    marks = steps_of(read)
    assert truth["window"] == [marks[0][0], marks[-1][1]]
    for index, device in enumerate(truth["devices"]):
        by_kind = spans_of(read[f"{prefix}{index}"]["lines"])
        every = [span for spans in by_kind.values() for span in spans]
        low, high = min(span[0] for span in every), max(span[1] for span in every)
        for planted, found in (
            (device["all"], {"start_ns": low} | figures(by_kind, low, high)),
            (device["window"], figures(by_kind, *truth["window"])),
        ):
            assert {key: planted[key] for key in found} == found
            exposed = sum(planted.get(f"exposed_{kind}_ns", 0) for kind in ("comm", "memory", "other"))
            assert planted["compute_ns"] + exposed + planted["idle_ns"] == planted["span_ns"]
        assert sum(device["idle_causes"].values()) == device["window"]["idle_ns"]
        for step, (start, end) in zip(truth["steps"], marks, strict=True):
            assert (step["start_ns"], step["wall_ns"]) == (start, end - start)
            assert step["busy_ns"][index] == figures(by_kind, start, end)["busy_ns"]


@pytest.mark.parametrize(("folder", "word"), [("tpu_train", "all-reduce"), ("gpu_jax", "nccl")])
def test_collectives(folder: str, word: str) -> None:
    read, truth = load(folder)
    rounds = []
    for name, one_plane in read.items():
        if name.startswith("/device:"):
            events = (
                one_plane["lines"].get("XLA Ops", []) if word == "all-reduce" else streams(one_plane["lines"])
            )
            named = [event for event in events if (event["display"] or event["name"]).startswith(word)]
            rounds.append([end - start for start, end in sorted(nanoseconds(named))])
    for planted, durations in zip(truth["collectives"], zip(*rounds, strict=True), strict=True):
        assert planted["transfer_ns"] == min(durations)
        assert list(planted["wait_ns"].values()) == [ns - min(durations) for ns in durations]


@pytest.mark.parametrize("folder", GENERATED)
def test_no_trace_of_the_machine_that_wrote_it(folder: str) -> None:
    data = (ROOT / folder / f"{GENERATED[folder]}.xplane.pb").read_bytes()
    assert fields(data)[4] == [GENERATED[folder].encode()]
    assert not any(word in data for word in (b"/home/", b"/root/", b"/tmp/"))


# ---------------------------------------------------------------------------------------------------- tpu_train


def self_times(events: list[dict[str, Any]]) -> list[int]:
    """Each event's time without that of the events directly inside it; each looks at all others."""
    spans = nanoseconds(events)
    own = [end - start for start, end in spans]
    for child, (start, end) in enumerate(spans):
        around = [
            (high - low, place)
            for place, (low, high) in enumerate(spans)
            if place != child and low <= start and end <= high
        ]
        if around:
            own[min(around)[1]] -= end - start
    return own


@pytest.mark.parametrize("core", range(4))
def test_tpu_operations(core: int) -> None:
    read, truth = load("tpu_train")
    events = read[f"/device:TPU:{core}"]["lines"]["XLA Ops"]
    names = {one["id"]: name for name, one in truth["programs"].items()}
    table: dict[str, dict[str, Any]] = {}
    flops: Counter[str] = Counter()
    for event, own in zip(events, self_times(events), strict=True):
        program = names[event["shared"]["program_id"]]
        empty = {"category": event["shared"]["hlo_category"], "count": 0, "total_ns": 0, "self_ns": 0}
        row = table.setdefault(f"{program}/{event['display']}", empty)
        row["count"] += 1
        row["total_ns"] += (event["end"] - event["start"]) // 1000
        row["self_ns"] += own
        flops[program] += event["shared"]["flops"]
    assert table == truth["devices"][core]["operations"]
    assert flops == {name: 6 * one["flops"] for name, one in truth["programs"].items()}
    times: Counter[str] = Counter()
    for row in table.values():
        times[row["category"]] += row["self_ns"]
    assert times == truth["devices"][core]["categories"]


@pytest.mark.parametrize("core", range(4))
def test_tpu_runs_are_linked_to_calls_of_the_host(core: int) -> None:
    read, truth = load("tpu_train")
    lines = read[f"/device:TPU:{core}"]["lines"]
    threads = read["/host:CPU"]["lines"]
    calls = {e["stats"]["_p"]: e for e in threads[f"py_xla_execute/{8110 + core}"] if e["stats"]["_pt"] == 12}
    runs = lines["XLA Modules"]
    assert len(calls) == len(runs) == 12
    for run in runs:
        call = calls[run["stats"]["_c"]]
        assert (call["name"], run["stats"]["_ct"]) == ("DoEnqueueProgram", 12)
        assert call["stats"]["run_id"] == run["stats"]["run_id"]
        assert call["stats"]["device_ordinal"] == core
        assert call["end"] < run["start"]
    assert truth["devices"][core]["module_ns"] == sum(end - start for start, end in nanoseconds(runs))
    waits = nanoseconds(lines["XLA TraceMe"])
    assert truth["devices"][core]["idle_causes"]["barrier"] == sum(end - start for start, end in waits)


@pytest.mark.parametrize("core", range(4))
def test_tpu_clock_and_steps_of_the_device(core: int) -> None:
    read, truth = load("tpu_train")
    lines = read[f"/device:TPU:{core}"]["lines"]
    for line in ("Steps", "XLA Modules", "XLA Ops"):
        for event in lines[line]:
            assert event["stats"]["device_offset_ps"] - event["start"] == AHEAD[core] * 1000
            assert event["stats"]["device_duration_ps"] == event["end"] - event["start"]
    assert [step["device"][core] for step in truth["steps"]] == [list(s) for s in nanoseconds(lines["Steps"])]
    assert [event["name"] for event in lines["Steps"]] == list("012345")
    done = {event["stats"]["hlo_op"] for event in lines["Async XLA Ops"]}
    assert done == {"all-gather-done.1", "copy-done.1"}


def test_tpu_planted_stalls() -> None:
    """Where the host did what was planted, no device was busy."""
    read, truth = load("tpu_train")
    thread = read["/host:CPU"]["lines"]["python"]
    for cause, name in (
        ("compile", "PjRtCApiClient::CompileAndLoad"),
        ("checkpoint", "$async_checkpointer.py:408 save"),
    ):
        ((start, end),) = nanoseconds([event for event in thread if event["name"] == name])
        for core, device in enumerate(truth["devices"]):
            assert figures(tpu_spans(read[f"/device:TPU:{core}"]["lines"]), start, end)["busy_ns"] == 0
            assert device["idle_causes"][cause] == end - start
    infeeds = [e for e in read["/device:TPU:0"]["lines"]["XLA Ops"] if e["display"] == "infeed.1"]
    longest = [end - start > 800_000 for start, end in nanoseconds(infeeds)]
    assert longest == [False, False, True, False, False, False]


# --------------------------------------------------------------------------------------------------- programs


def shape(data: bytes) -> tuple[int, ...]:
    return tuple(value for part in fields(data)[3] for value in numbers(part))


def product_flops(found: Fields, shapes: dict[int, tuple[int, ...]]) -> int:
    """Of a dot or of a convolution without spatial dimensions, both as [m, k] or [k, m] times [k, n]."""
    lhs, rhs = (shapes[key] for key in numbers(found[36][0]))
    assert len(lhs) == len(rhs) == 2
    assert rhs[0] in lhs
    return 2 * prod(shape(one(found, 3, b""))) * rhs[0]


def matrix_flops(blob: bytes) -> tuple[int, set[str]]:
    """The products of matrices in a program with the trips of its loops, and the targets of its custom calls.

    A `while` calls its body, then its condition.
    """
    module = fields(fields(blob)[1][0])
    bodies = {one(fields(data), 5, 0): fields(data) for data in module[3]}
    targets = set()

    def of(body: Fields) -> int:
        found = [fields(data) for data in body[2]]
        shapes = {one(f, 35, 0): shape(one(f, 3, b"")) for f in found}
        flops = 0
        for instruction in found:
            opcode = one(instruction, 2, b"").decode()
            if opcode in ("dot", "convolution"):
                flops += product_flops(instruction, shapes)
            config = json.loads(one(instruction, 43, b"{}"))
            if opcode == "custom-call":
                targets.add(one(instruction, 28, b"").decode())
                if "gemm_backend_config" in config:
                    lhs, rhs = (shapes[key] for key in numbers(instruction[36][0]))
                    flops += 2 * lhs[0] * lhs[1] * rhs[1]
            called = [key for part in instruction[38] for key in numbers(part)]
            trips = [int(config["known_trip_count"]["n"]), 0] if opcode == "while" else [1] * len(called)
            flops += sum(times * of(bodies[key]) for times, key in zip(trips, called, strict=True))
        return flops

    return of(bodies[one(module, 6, 0)]), targets


@pytest.mark.parametrize(
    ("folder", "program", "targets"),
    [
        ("tpu_train", "jit_train_step", {"tpu_custom_call"}),
        ("tpu_train", "jit_loss_mean", set()),
        ("gpu_jax", "jit_train_step", {"__cublas$lt$matmul"}),
    ],
)
def test_programs(folder: str, program: str, targets: set[str]) -> None:
    read, truth = load(folder)
    planted = truth["programs"][program]
    kinds = read["/host:metadata"]["kinds"]
    assert kinds[planted["id"]][0] == f"{program}({planted['id']})"
    assert matrix_flops(kinds[planted["id"]][2]["Hlo Proto"]) == (planted["matrix_flops"], targets)


# ------------------------------------------------------------------------------------------------------ gpu_jax


@pytest.mark.parametrize("gpu", [0, 1])
def test_gpu_kernels_and_launches(gpu: int) -> None:
    read, truth = load("gpu_jax")
    device = truth["devices"][gpu]
    events = streams(read[f"/device:GPU:{gpu}"]["lines"])
    kernels: dict[str, dict[str, int]] = {}
    operations: dict[str, dict[str, int]] = {}
    for event in events:
        for table, name in ((kernels, event["name"]), (operations, event["stats"].get("hlo_op"))):
            if name:
                row = table.setdefault(name, {"count": 0, "time_ns": 0})
                row["count"] += 1
                row["time_ns"] += (event["end"] - event["start"]) // 1000
    assert (kernels, operations) == (device["kernels"], device["operations"])
    calls = {
        e["stats"]["correlation_id"]: e
        for events in read["/host:CPU"]["lines"].values()
        for e in events
        if "correlation_id" in e["stats"]
    }
    assert len({event["stats"]["correlation_id"] for event in events}) == len(events)
    assert all(calls[e["stats"]["correlation_id"]]["end"] < e["start"] for e in events)
    details = Counter(next(k for k in e["stats"] if k.endswith("_details")) for e in events)
    counted = {f"{name.removesuffix('_details')}_count": n for name, n in details.items()}
    assert counted == {key: device["all"][key] for key in counted}


def test_gpu_derived_lines_repeat_the_streams() -> None:
    read, _ = load("gpu_jax")
    lines = read["/device:GPU:0"]["lines"]
    derived = [name for name in lines if not name.startswith("Stream #")]
    assert derived == ["Steps", "XLA Modules", "XLA Ops", "Framework Name Scope", "Source code"]
    of_programs = sorted(nanoseconds([e for e in streams(lines) if "hlo_op" in e["stats"]]))
    assert sorted(nanoseconds(lines["XLA Ops"])) == of_programs
    assert len(lines["Steps"]) == len(lines["XLA Modules"]) == 4


# --------------------------------------------------------------------------------------------- jax_cpu and micro


def test_jax_cpu() -> None:
    expected = json.loads((ROOT / "jax_cpu" / "expected.json").read_text())
    data = (ROOT / "jax_cpu" / "host-a.xplane.pb").read_bytes()
    read = planes(data)
    assert len(data) < 60_000
    assert fields(data)[4] == [b"host-a"]
    assert not any(word in data for word in (b"/home/", b"/root/", b"/tmp/", b"/usr/"))
    assert {name: len(one_plane["lines"]) for name, one_plane in read.items()} == expected["planes"]
    lines = read["/host:CPU"]["lines"]
    assert {name: len(events) for name, events in lines.items()} == expected["events"]
    times = read["Task Environment"]["stats"]
    assert times["profile_start_time"] == expected["profile_start_ns"]
    assert times["profile_stop_time"] == expected["profile_stop_ns"]
    marks = [[e["start"], e["end"] - e["start"]] for e in lines["python"] if e["stats"].get("_r") == 1]
    assert marks == expected["steps_ps"]
    named = [e for events in lines.values() for e in events if e["name"] == "PjRtCpuClient::Compile"]
    assert [[e["start"], e["end"] - e["start"]] for e in named] == [expected["compile_ps"]]
    programs = [kind[0].partition("(")[0] for kind in read["/host:metadata"]["kinds"].values()]
    assert programs == expected["programs"]


@pytest.mark.parametrize("name", CASES)
def test_micro(name: str) -> None:
    case = CASES[name]()
    found = {}
    steps: list[int] = []
    for path, data in case.files.items():
        if not path.endswith(".xplane.pb"):
            continue
        read = planes(data)
        steps += (
            [end - start for start, end in steps_of(read)] if "python" in read["/host:CPU"]["lines"] else []
        )
        for plane_name, one_plane in read.items():
            lines = one_plane["lines"]
            events = lines.get("XLA Ops", []) + lines.get("Sparse Core Ops", []) + streams(lines)
            if events:
                spans = nanoseconds(events)
                hull = min(s for s, _ in spans), max(e for _, e in spans)
                busy = figures({"compute": spans}, *hull)
                found[path, plane_name] = busy["span_ns"], busy["busy_ns"], busy["idle_ns"]
    assert found == case.devices
    assert case.error or tuple(steps) == case.steps


def test_micro_ids_collide() -> None:
    kinds = [plane["kinds"] for name, plane in planes(CASES["colliding_ids"]().files["h0.xplane.pb"]).items()]
    first, second = kinds[:2]
    assert (first[1][1], first[2][1]) == (second[2][1], second[1][1]) == ("fusion.1", "convolution.2")
