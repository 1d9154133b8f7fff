"""A profile as tables: what is said of it as a whole, and what files may hold that nobody should have written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.xla.writer import NOTHING, Plane, Stats, Unsigned, block, environment, number, space
from mpg_parsers.errors import InputError
from mpg_parsers.registry import ParseOptions
from mpg_parsers.xla.reading import batches
from mpg_parsers.xla.space import Line, Metadata, Space
from mpg_parsers.xla.space import Plane as SpacePlane
from mpg_parsers.xla_profile import XLA_PROFILE
from tests.mpg_cli.running import ROOT, analyze
from tests.parsers.reading import notices
from tests.parsers.test_xla_device import US, add, core, tables, tables_of

if TYPE_CHECKING:
    from pathlib import Path

FIRST, LAST = -(1 << 61), (1 << 62) - 1
WORK = ("fusion.1", 10, 5)


# ------------------------------------------------------------------------------------------------ whole profiles


def test_the_row_of_the_file() -> None:
    planes = [core(WORK), add(Plane("/host:CPU"), "main", ("f", 2, 3)), environment(1_700, 2_000)]
    data = space(planes, ["host-a"], ["tracer: lost"], ["old driver"])
    (row,) = tables_of(data)["sources"].to_dicts()
    want = {
        "format": "xla", "framework": "XLA", "host": None, "base_ns": 1_700, "profile_start_ns": 0,
        "profile_end_ns": 300, "first_ns": 2_000, "last_ns": 15_000, "events": 2, "rank": None,
    }  # fmt: skip
    assert {key: row[key] for key in want} == want
    assert len(row["node"]) == 12
    said = [(one["kind"], one["message"]) for one in json.loads(row["notices"])]
    assert said == [
        ("capture_incomplete", "the profiler says: tracer: lost"), ("capture_warning", "the profiler says: old driver"),
    ]  # fmt: skip
    assert tables_of(data, keep_names=True)["sources"]["host"].to_list() == ["host-a"]


@pytest.mark.parametrize(
    ("start", "stop", "want"),
    [
        (0, 0, (None, None, None)),
        (5, 0, (5, 0, None)),
        (9, 5, (9, 0, None)),
        (5, 5, (5, 0, None)),
        (5, 1 << 60, (5, 0, (1 << 60) - 5)),
    ],
)
def test_when_the_profiler_was_on(start: int, stop: int, want: tuple[int | None, ...]) -> None:
    found = tables(core(WORK), environment(start, stop))["sources"]
    assert found.select("base_ns", "profile_start_ns", "profile_end_ns").row(0) == want


def test_without_its_plane_times_count_from_nothing() -> None:
    found = tables(core(WORK))["sources"]
    assert found.select("base_ns", "profile_start_ns", "profile_end_ns").row(0) == (None, None, None)


def test_what_the_profiler_says_names_no_place() -> None:
    text = "cannot open /home/alice/secret/train.py on alice-box.corp"
    data = space([core(WORK)], ["alice-box.corp"], [text])
    (said,) = json.loads(tables_of(data)["sources"]["notices"][0])
    assert said["message"].startswith("the profiler says: cannot open train.py on ")
    assert "alice" not in said["message"]
    (said,) = json.loads(tables_of(data, keep_names=True)["sources"]["notices"][0])
    assert said["message"] == f"the profiler says: {text}"


def test_names_of_programs_and_operations_name_no_place() -> None:
    plane = core(("/home/alice/secret/op.py", 10, 5, {"hlo_category": "/home/alice/secret/kind"}))
    for start in (10, 30, 50):
        add(plane, "XLA Modules", ("/home/alice/secret/train.py(7)", start, 10))
    for table, frame in tables(plane).items():
        assert "alice" not in str(frame.to_dicts()), table
    assert "/home/alice/secret/op.py" in str(
        tables_of(space([plane]), keep_names=True)["device_ops"].to_dicts()
    )


def test_a_start_of_profiling_that_cannot_be() -> None:
    found = tables(core(WORK), environment(1 << 63, (1 << 63) + 5))["sources"]
    assert found.select("base_ns", "profile_start_ns", "profile_end_ns").row(0) == (None, None, None)


def test_what_the_profiler_says_is_bounded() -> None:
    found = tables_of(space([core(WORK)], (), ["x" * 10_000] * 50, ["y" * 10_000] * 50))
    assert notices(found) == [("capture_incomplete", 1)] * 5 + [("capture_warning", 1)] * 5
    assert len(found["sources"]["notices"][0]) < 5_000


def test_devices() -> None:
    tpu = core(WORK, name="/device:TPU:1")
    tpu.stats = {
        "device_type_string": "TPU v5p", "peak_teraflops_per_second": 459.0,
        "peak_hbm_bw_gigabytes_per_second": 2765.25,
    }  # fmt: skip
    idle = Plane("/device:TPU:2", stats={"device_type_string": "TPU v5p"})
    idle.line("XLA Ops")
    (row,) = tables(tpu, idle)["devices"].to_dicts()
    want = {
        "device": 1,
        "name": "TPU v5p",
        "peak_flops": 459 * 10**12,
        "bandwidth": 2_765_250_000_000,
        "sm_count": None,
    }
    assert {key: row[key] for key in want} == want


def test_a_gpu() -> None:
    gpu = core(WORK, line="Stream #1", name="/device:GPU:0")
    gpu.stats = {
        "device_vendor": "Nvidia", "core_count": Unsigned(132), "clock_rate": Unsigned(1_980_000),
        "compute_cap_major": 9, "compute_cap_minor": 0,
        "memory_size": Unsigned(85 * 10**9), "memory_bandwidth": Unsigned(3_350 * 10**9),
        "peak_teraflops_per_second": 1.0,
    }  # fmt: skip
    (row,) = tables(gpu)["devices"].to_dicts()
    want = {
        "name": "Nvidia", "sm_count": 132, "clock_hz": 1_980_000_000, "compute_capability": "9.0",
        "memory_bytes": 85 * 10**9, "bandwidth": 3_350 * 10**9, "peak_flops": None,
    }  # fmt: skip
    assert {key: row[key] for key in want} == want


@pytest.mark.parametrize(
    "figure", [0.0, -1.0, float("nan"), float("inf"), 1e30, "459", b"\xff", Unsigned(2**64 - 1)]
)
def test_figures_of_a_device_that_cannot_be(figure: Any) -> None:
    plane = core(WORK)
    plane.stats = dict.fromkeys(
        ("peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second", "clock_rate"), figure
    )
    (row,) = tables(plane)["devices"].to_dicts()
    assert {row[key] for key in ("peak_flops", "bandwidth", "clock_hz")} == {None}


# ------------------------------------------------------------------------------------------------------ no device


def refused(*planes: Plane) -> InputError:
    with pytest.raises(InputError) as caught:
        tables(*planes)
    assert caught.value.kind == "no_device_activity"
    return caught.value


def test_only_a_host() -> None:
    error = refused(add(Plane("/host:CPU"), "main", ("f", 0, 1)), environment(1, 2))
    assert "its planes are /host:CPU, Task Environment" in error.message
    assert "the device tracer did not start" in error.hint


@pytest.mark.parametrize(
    "event", ["PjRtCpuClient::Compile", "TfrtCpuExecutable::Execute", "ThunkExecutor::Execute"]
)
def test_the_cpu_backend(event: str) -> None:
    assert "XLA's CPU backend" in refused(add(Plane("/host:CPU"), "main", (event, 0, 1))).hint


def test_devices_without_operations() -> None:
    """Neither lines without events, nor those that are derived, are work."""
    idle = Plane("/device:TPU:0")
    idle.line("XLA Ops")
    add(idle, "Steps", ("0", 0, 100))
    add(idle, "XLA Modules", ("jit_f(1)", 0, 100))
    assert "/device:TPU:0" in refused(idle).message


def test_events_without_a_time_are_no_work() -> None:
    plane = Plane("/device:TPU:0")
    plane.line("XLA Ops").count("fusion.1", 7)
    refused(plane)


def test_a_profile_of_nothing() -> None:
    environment_only = refused(environment(1, 2))
    assert "its planes are Task Environment" in environment_only.message


def test_the_limit_of_the_exporter() -> None:
    """Chrome's format only: XPlane files have none."""

    def events(wanted: Any) -> pl.DataFrame:
        return pl.DataFrame(
            {"metadata": [1], "offset_ps": [0], "dur_ps": [9_000]} | {name: [None] for name in wanted},
            schema_overrides=dict.fromkeys(wanted, pl.Int64),
        )

    line = Line(1, "XLA Ops", 0, 1, events)
    plane = SpacePlane("/device:TPU:0", {}, (line,), {1: Metadata("fusion.1")})
    parts = dict(batches(Space((plane,), capped=True), [], "p", "xla", ParseOptions()))
    assert [one["kind"] for one in json.loads(parts["sources"]["notices"][0])] == ["event_cap"]


# ---------------------------------------------------------------------------------------------------- hostile files


def possible(found: dict[str, pl.DataFrame]) -> None:
    """Every time is one that can be."""
    for name in ("device_ops", "host_events"):
        frame = found[name]
        assert (frame["dur_ns"] >= 0).all()
        assert (frame["start_ns"] >= FIRST).all()
        assert ((frame["start_ns"] + frame["dur_ns"]) <= LAST).all()


EXTREMES = (0, 1, -1, 10**18, (1 << 62) - 1, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63))


@given(
    st.lists(st.tuples(*[st.sampled_from(EXTREMES)] * 5), min_size=1, max_size=6), st.sampled_from(EXTREMES)
)
@settings(deadline=None, max_examples=15)
def test_times_of_any_size(events: list[tuple[int, ...]], timestamp_ns: int) -> None:
    plane = core(WORK)
    for name in ("XLA Ops", "XLA Modules", "Steps", "Async XLA Ops", "XLA TraceMe"):
        line = plane.line(name, 9, timestamp_ns)
        for offset, dur, device_offset, device_dur, run in events:
            stats: Stats = {
                "device_offset_ps": Unsigned(device_offset % 2**64), "device_duration_ps": Unsigned(device_dur % 2**64),
                "run_id": run, "_ct": 12, "_c": run,
            }  # fmt: skip
            line.add("jit_wait(7)", offset, dur, stats if run else NOTHING)
    host = Plane("/host:CPU").line("main", -1, timestamp_ns)
    for offset, dur, *_, step in events:
        host.add("train", offset, dur, {"step_num": step})
    found = tables(plane, host.plane)
    possible(found)
    assert (10_000, 5_000) in found["device_ops"].select("start_ns", "dur_ns").rows()


def test_a_report_of_times_of_any_size(tmp_path: Path) -> None:
    plane = core(WORK, ("fusion.1", 20, 10**12), ("fusion.2", -(10**12), 3))
    plane.line("XLA Ops", 3, (1 << 62) - 2_000).add("fusion.3", 0, US)
    (tmp_path / "p.xplane.pb").write_bytes(space([plane]))
    result = analyze(tmp_path / "p.xplane.pb")
    assert result.status in (0, 3), result.err
    assert "bug" not in result.err


NAMES = [
    "\x1b[31mred\x07",
    "a\x00b",
    "\n\r\t",
    "\u202egnirts",
    "\ufffd",
    "%s {} <b>&amp;</b>|`x`",
    "=cmd()",
    "日本語",
    "",
]


@pytest.mark.parametrize("form", ["json", "md"])
def test_names_with_control_characters(form: str, tmp_path: Path) -> None:
    """Whoever prints a report on a terminal sees letters."""
    plane = core(*((name, 10 * n, 5, {"hlo_category": name}) for n, name in enumerate(NAMES)))
    plane.stats = {"device_type_string": NAMES[0]}
    add(plane, "XLA Modules", *((f"{name}(1)", 10 * n, 5) for n, name in enumerate(NAMES)))
    host = add(Plane("/host:CPU"), NAMES[0], *((name, 10 * n, 5) for n, name in enumerate(NAMES)))
    (tmp_path / "p.xplane.pb").write_bytes(space([plane, host], NAMES, NAMES, NAMES))
    result = analyze(tmp_path / "p.xplane.pb", "-f", form)
    assert result.status == 0, result.err
    assert not any(sign in result.out + result.err for sign in ("\x1b", "\x00", "\x07"))


def test_long_names() -> None:
    long = "x" * 1_000_000
    plane = core((long, 0, 5, {"hlo_category": long, "tf_op": long, "source": long}))
    for line in ("XLA Modules", "Steps", "XLA TraceMe"):
        add(plane, line, (f"{long} wait", 0, 5))
    found = tables(plane)
    assert found["device_ops"]["name"].str.len_bytes().max() == 200
    assert found["steps"]["name"].str.len_bytes().max() == 120
    assert found["hlo_ops"]["category"].str.len_bytes().max() == 300
    assert found["program_runs"]["name"].str.len_bytes().max() == 300


def test_long_names_of_kernels_and_threads() -> None:
    gpu = core(("x" * 1_000_000, 0, 5), line="Stream #1", name="/device:GPU:0")
    found = tables(gpu, add(Plane("/host:CPU"), "y" * 1_000_000, ("z" * 1_000_000, 0, 5)))
    assert found["device_ops"]["name"].str.len_bytes().max() == 10_000
    assert found["host_events"]["name"].str.len_bytes().max() == 2_000


def test_kinds_of_events_that_nobody_uses() -> None:
    """20,000 of them: only those that occur are looked at."""
    kinds = b"".join(
        block(4, number(1, key) + block(2, number(1, key) + block(2, f"op.{key}")))
        for key in range(2, 20_002)
    )
    found = tables_of(block(1, core(WORK).encode() + kinds))
    assert found["hlo_ops"].height == 1


def test_ids_that_collide() -> None:
    """Two lines of the same number and name, two planes of the same name, a kind defined twice: the last counts."""
    plane = core(WORK)
    twice = plane.line("XLA Ops", plane.lines[0].id)
    twice.add(1, 50 * US, 5 * US)
    plane.metadata("fusion.2", key=1)
    found = tables(plane, core(WORK))["device_ops"].sort("start_ns", "name")
    assert found.select("start_ns", "name").rows() == [
        (10_000, "fusion.1"),
        (10_000, "fusion.2"),
        (50_000, "fusion.2"),
    ]


SMALL = space(
    [
        add(core(WORK, ("while.2", 20, 50), ("dot.3", 30, 10)), "XLA Modules", ("jit_f(5)", 10, 70)),
        add(Plane("/host:CPU"), "main", ("train", 5, 90, {}, {"step_num": 1}), ("$a.py:1 f", 6, 9)),
        environment(10**18, 10**18 + 10**9),
    ],
    ["h"],
)


def outcome(data: bytes) -> str:
    """The error's kind, or nothing if there are tables."""
    if XLA_PROFILE.sniff(data[: 1 << 16], "p"):
        return "another format"
    try:
        possible(tables_of(data))
    except InputError as error:
        return error.kind if error.message else "no message"
    return ""


KINDS = ("", "another format", "truncated_input", "corrupt_input", "no_device_activity", "unsupported_format")


@given(st.data())
@settings(deadline=None)
def test_damaged_bytes(data: st.DataObject) -> None:
    content = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    assert outcome(bytes(content)) in KINDS


@pytest.mark.parametrize("name", ["tpu_train/tpu-host-0", "gpu_jax/gpu-host-0"])
def test_damaged_bytes_of_the_planted_runs(name: str) -> None:
    whole = (ROOT / f"fixtures/xla/{name}.xplane.pb").read_bytes()
    for share in (1, 4):
        at = len(whole) * share // 7
        for put in (b"\xff" * 8, b"\x00" * 8):
            assert outcome(whole[:at] + put + whole[at + 8 :]) in KINDS
        assert outcome(whole[:at]) in KINDS
