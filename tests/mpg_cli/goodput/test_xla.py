"""What XLA's own tools show: cases for paper, a slow oracle, and xprof's figures for real profiles."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import activity, xla
from mpg_cli.goodput.names import NameRules
from mpg_cli.ingest import IngestOptions, ingest
from tests.mpg_cli.datasets import dataset, op, source
from tests.real_traces import CORPUS, NO_CORPUS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]
RULES = NameRules.load()
OPERATION_DEFAULTS: Row = {
    "program_id": "7", "program": "jit_f", "category": "loop fusion", "flops": 0, "bytes": 100, "opaque": False,
    "recompute": False,
}  # fmt: skip


def about(hlo: int, name: str, **more: Any) -> Row:
    return {"hlo": hlo, "name": name} | OPERATION_DEFAULTS | more


def ran(start: int, dur: int, hlo: int = 0, **more: Any) -> Row:
    """An operation on a TPU, named after its number unless said otherwise."""
    return op(start, dur, **({"name": f"op.{hlo}", "hlo": hlo, "asynchronous": False, "stream": 1} | more))


def run(start: int, end: int, name: str = "jit_f", *, program_id: str = "7", device: int = 0) -> Row:
    return {"device": device, "name": name, "program_id": program_id, "start_ns": start, "end_ns": end}


def profile(ops: Sequence[Row], operations: Sequence[Row], runs: Sequence[Row] = (), **about_it: Any) -> Any:
    rows = source(ops, **about_it)
    return rows | {"hlo_ops": list(operations), "program_runs": list(runs)}


def measure(*profiles: Any) -> xla.Xla:
    made = dataset(*profiles)
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    found = xla.measure(made, loaded)
    assert found is not None
    assert found.time_ns == found.operations["time_ns"].sum() == found.categories["time_ns"].sum()
    assert found.programs["operations_ns"].sum() == found.time_ns
    exposed = found.asynchronous["hidden_ns"] + found.asynchronous["exposed_ns"]
    assert exposed.to_list() == found.asynchronous["time_ns"].to_list()
    return found


def test_nothing_without_operations() -> None:
    made = dataset(source([op(0, 10)]))
    assert xla.measure(made, activity.load(made, made.scan("sources").collect(), RULES)) is None


def test_operations_that_did_not_run() -> None:
    found = measure(profile([op(0, 10)], [about(0, "fusion.1")]))
    assert (found.time_ns, found.operations.height, found.programs.height) == (0, 0, 0)
    assert found.reasons == {"idle_between": xla.NO_TPU, "idle_in_profile": xla.NO_TPU}


def test_self_time_and_executions() -> None:
    """A loop of 100 ns with two passes of 30 inside runs alone for 40, in three pieces: once."""
    loop = [ran(start, dur, 1, part=part) for part, (start, dur) in enumerate([(0, 10), (40, 10), (80, 20)])]
    body = [ran(10, 30), ran(50, 30)]
    found = measure(profile([*loop, *body], [about(0, "fusion.1"), about(1, "while.2", category="while")]))
    assert found.operations.select("name", "category", "count", "time_ns").rows() == [
        ("fusion.1", "loop fusion", 2, 60), ("while.2", "while", 1, 40),
    ]  # fmt: skip
    assert found.categories.rows() == [("loop fusion", 2, 60), ("while", 1, 40)]


def test_devices_and_hosts_are_summed_but_different_programs_are_not() -> None:
    one = profile([ran(0, 10), ran(0, 20, device=1)], [about(0, "fusion.1")])
    other = profile([ran(5, 30, 3)], [about(3, "fusion.1")], path="b")
    third = profile([ran(5, 5)], [about(0, "fusion.1", program_id="8")], path="c")
    rows = measure(one, other, third).operations.select("program_id", "name", "count", "time_ns").rows()
    assert rows == [("7", "fusion.1", 3, 60), ("8", "fusion.1", 1, 5)]


def test_rates() -> None:
    """2 x 3,000 FLOP in 40 ns are 0.15 TFLOP/s; 2 x 100 bytes in 40 ns are 5 GB/s."""
    found = measure(profile([ran(0, 10), ran(10, 30)], [about(0, "dot.1", flops=3000)]))
    assert found.operations.select("tflops", "gbps").rows() == [(0.15, 5.0)]


@pytest.mark.parametrize(
    ("ops", "more"),
    [
        pytest.param([ran(0, 10, part=0), ran(20, 10, part=1)], {}, id="others ran inside"),
        pytest.param([ran(0, 10, name="a"), ran(10, 5, name="b"), ran(15, 5, name="b")], {}, id="uneven kernels"),
        pytest.param([ran(0, 0)], {}, id="no time"),
        pytest.param([ran(0, 10)], {"category": "copy-done"}, id="the end of a copy"),
        pytest.param([ran(0, 10)], {"flops": None, "bytes": None}, id="nothing known"),
    ],
)  # fmt: skip
def test_rates_that_are_not_known(ops: list[Row], more: Row) -> None:
    found = measure(profile(ops, [about(0, "x.1", **({"flops": 3000} | more))]))
    assert found.operations.select("tflops", "gbps").rows() == [(None, None)]


def test_several_kernels_of_one_execution_count_each_and_once_for_the_rate() -> None:
    """As a library call that launches a transformation and a product: its FLOPs are those of both together."""
    kernels = [ran(0, 10, name="im2col", asynchronous=None), ran(10, 30, name="gemm", asynchronous=None)]
    found = measure(profile(kernels, [about(0, "conv.1", flops=4000)]))
    assert found.operations.select("count", "time_ns", "tflops").rows() == [(2, 40, 0.1)]


def test_the_activity_is_that_of_the_longest_kernel() -> None:
    kernels = [ran(0, 10, name="memset", kind="memset"), ran(10, 30, name="sgemm_128x64")]
    assert measure(profile(kernels, [about(0, "conv.1")])).operations["activity"].to_list() == ["compute"]


def test_kinds_of_work() -> None:
    operations = [
        about(0, "custom-call.1", category="custom-call", opaque=True, framework_op="jit(f)/attention"),
        about(1, "custom-call.2", category="custom-call", opaque=True),
        about(2, "fusion.3.remat", recompute=True),
        about(3, "infeed.4", category="infeed"),
        about(4, "outfeed.5", category="outfeed"),
        about(5, "custom-call.6", category="custom-call", opaque=True, framework_op="jit(f)/attention"),
    ]
    ops = [ran(10 * hlo, hlo + 1, hlo, kind="infeed" if hlo == 3 else "kernel") for hlo in range(6)]
    found = measure(profile(ops, operations))
    assert found.opaque.rows() == [("jit(f)/attention", 2, 7), ("custom-call.2", 1, 2)]
    assert (found.recompute_ns, found.infeed_ns, found.outfeed_ns, found.time_ns) == (3, 4, 5, 21)


def test_idle_by_both_definitions() -> None:
    """Two cores: 30 of 80 ns and 40 of 40 ns are busy from first to last; the profile lasted 100 ns on each."""
    ops = [ran(10, 20), ran(80, 10), ran(50, 40, device=1)]
    found = measure(profile(ops, [about(0, "fusion.1")], profile_start_ns=0, profile_end_ns=100))
    assert found.idle_between == xla.Idle(50, 120)
    assert found.idle_in_profile == xla.Idle(130, 200)
    assert found.reasons == {}


@pytest.mark.parametrize(
    ("ops", "window", "reasons"),
    [
        ([ran(0, 10)], (None, None), {"idle_in_profile": xla.NOT_STATED}),
        ([ran(0, 10)], (0, 5), {"idle_in_profile": xla.OUTLAST}),
        ([ran(0, 10)], (-(1 << 63), (1 << 63) - 1), {"idle_in_profile": xla.NOT_STATED}),
        ([ran(0, 10)], (-(1 << 62), 1 << 62), {"idle_in_profile": xla.OUTLAST}),
        ([ran(0, 0)], (0, 5), {"idle_between": xla.OUTLAST}),
        ([ran(0, 10, asynchronous=None)], (0, 50), dict.fromkeys(("idle_between", "idle_in_profile"), xla.NO_TPU)),
    ],
)  # fmt: skip
def test_idle_that_is_not_known(ops: list[Row], window: tuple[Any, Any], reasons: dict[str, str]) -> None:
    start, end = window
    found = measure(profile(ops, [about(0, "x.1")], profile_start_ns=start, profile_end_ns=end))
    assert found.reasons == reasons
    known = {"idle_between": found.idle_between, "idle_in_profile": found.idle_in_profile}
    assert {name for name, idle in known.items() if idle is None} == set(reasons)


def test_programs() -> None:
    """Two runs of 50 and 30 ns with 20 and 30 ns of operations, a gap of 30; a run without any; operations in none."""
    ops = [ran(10, 20), ran(100, 30), ran(300, 5, 1)]
    operations = [about(0, "fusion.1"), about(1, "fusion.2", program_id=None, program=None)]
    runs = [run(0, 50), run(100, 130), run(200, 201, "jit_g", program_id="9"), run(0, 50, device=5)]
    found = measure(profile(ops, operations, runs)).programs.sort("program", nulls_last=True)
    assert found.select("program_id", "program", "runs", "time_ns", "gap_ns", "operations_ns").rows() == [
        ("7", "jit_f", 2, 80, 30, 50), ("9", "jit_g", 1, 1, 1, 0), (None, None, None, None, None, 5),
    ]  # fmt: skip


def test_runs_of_impossible_length_have_no_sum() -> None:
    runs = [run(-(1 << 61), 1 << 61), run(-(1 << 61), 1 << 61), run(-(1 << 61), 1 << 61)]
    found = measure(profile([ran(10, 20)], [about(0, "fusion.1")], runs)).programs
    assert found.select("runs", "time_ns", "gap_ns", "operations_ns").rows() == [(3, None, None, 20)]


def test_a_run_names_the_program_of_operations_that_do_not() -> None:
    nameless = about(0, "fusion.1", program_id=None, program=None)
    found = measure(
        profile([ran(0, 5), ran(60, 7)], [nameless], [run(0, 50), run(60, 70, "jit_g", program_id="8")])
    )
    assert found.operations.select("program_id", "program", "time_ns").rows() == [
        ("8", "jit_g", 7), ("7", "jit_f", 5),
    ]  # fmt: skip


def test_asynchronous_operations_are_in_no_sum() -> None:
    """A copy from 0 to 100: computing from 20 to 50 and from 90 hides 40; waiting for it from 50 does not."""
    operations = [
        about(0, "fusion.1"),
        about(1, "copy-done.2", category="copy-done"),
        about(2, "copy-start.3", category="copy-start"),
    ]
    copies = [
        ran(0, 100, 2, kind="memcpy", asynchronous=True),
        ran(30, 10, 2, kind="memcpy", asynchronous=True),
    ]
    ops = [ran(20, 30), ran(50, 40, 1, kind="memcpy"), ran(90, 20), ran(0, 100, device=1), *copies]
    found = measure(profile(ops, operations))
    assert found.asynchronous.select("name", "count", "time_ns", "hidden_ns", "exposed_ns").rows() == [
        ("copy-start.3", 2, 110, 50, 60),
    ]  # fmt: skip
    assert "copy-start.3" not in found.operations["name"]
    assert found.time_ns == 190


SPAN = st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 15))


@settings(max_examples=25, deadline=None)
@given(st.lists(SPAN, max_size=8), st.lists(SPAN, max_size=8))
def test_covered_is_what_counting_nanoseconds_gives(asked: list[Any], given_: list[Any]) -> None:
    columns = ["subject", "start_ns", "end_ns"]
    spans, rows = (
        pl.DataFrame([(d, a, a + n) for d, a, n in part], dict.fromkeys(columns, pl.Int64), orient="row")
        for part in (asked, given_)
    )
    busy = {(device, ns) for device, start, length in given_ for ns in range(start, start + length)}
    expected = [sum((device, ns) in busy for ns in range(a, a + n)) for device, a, n in asked]
    assert xla._covered(spans, rows).to_list() == expected


# --------------------------------------------------------------------------------------------- real profiles

XLA = CORPUS / "xla"
TPU = "tpu_inference_2"
PROFILES = (TPU, "mi300_jax08_gemm", "mi300_jax_conv_legacy", "mi300_jax08_attention")


def require(name: str) -> Any:
    path = XLA / name
    if not path.exists():
        pytest.skip(NO_CORPUS)
    return path


@contextmanager
def real(name: str) -> Iterator[xla.Xla]:
    with ingest([str(require(name))], IngestOptions()) as made:
        found = xla.measure(made, activity.load(made, made.scan("sources").collect(), RULES))
    assert found is not None
    yield found


def hlo_stats(name: str) -> dict[tuple[str, str, str], tuple[int, float]]:
    """Occurrences and total self time in ns by program, category and operation, as xprof 2.24 has them."""
    page = json.loads((require("oracles") / name / "hlo_stats.json").read_bytes())
    names = [column["id"] for column in page["cols"]]
    rows = [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in page["rows"]]
    return {
        (row["program_id"], row["category"], row["hlo_op_name"]): (
            int(row["occurrences"]), 1000 * row["total_self_time"],
        )
        for row in rows
    }  # fmt: skip


@pytest.mark.parametrize("name", PROFILES)
def test_operations_are_those_of_xprof(name: str) -> None:
    """Each execution is cut to whole nanoseconds at both ends, so that a sum may be off by one of each."""
    expected = hlo_stats(name)
    with real(f"{name}.xplane.pb") as found:
        rows = found.operations.select("program_id", "category", "name", "count", "time_ns").rows()
    ours = {(program, category, op): (count, ns) for program, category, op, count, ns in rows}
    assert {key: count for key, (count, _) in ours.items()} == {key: n for key, (n, _) in expected.items()}
    for key, (count, ns) in expected.items():
        assert abs(ours[key][1] - ns) <= count, key


@pytest.mark.parametrize("name", PROFILES)
def test_programs_and_categories_are_those_of_xprof(name: str) -> None:
    page = json.loads((require("oracles") / name / "op_profile.json").read_bytes())
    expected = {
        (program["name"], category["name"]): (category["metrics"]["occurrences"], category["metrics"]["rawTime"])
        for program in page["byProgramExcludeIdle"]["children"]
        for category in program["children"]
    }  # fmt: skip
    ours: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    with real(f"{name}.xplane.pb") as found:
        columns = ("program", "program_id", "category", "count", "time_ns")
        for program, number, category, count, ns in found.operations.select(columns).iter_rows():
            sums = ours[f"{program}({number})", category]
            sums[0] += count
            sums[1] += ns
    assert ours.keys() == expected.keys()
    for key, (count, ps) in expected.items():
        assert ours[key][0] == count
        assert abs(ours[key][1] - ps / 1000) <= count, key


def test_idle_is_that_of_xprof() -> None:
    """13.4 % in its overview, from 363.7297 s with 315.1179 s of operations; of 98.645 s on four cores 20.14 %."""
    with real(f"{TPU}.xplane.pb") as found:
        between, in_profile = found.idle_between, found.idle_in_profile
    assert between is not None
    assert in_profile is not None
    assert between.denominator_ns == pytest.approx(363_729_698_769, abs=8)
    assert between.numerator_ns == pytest.approx(363_729_698_769 - 315_117_903_706, abs=6_413)
    assert round(100 * between.numerator_ns / between.denominator_ns, 2) == 13.36
    assert round(100 * in_profile.numerator_ns / in_profile.denominator_ns, 2) == 20.14


@pytest.mark.parametrize(("name", "percent"), [("vllm_tpu_1", 25), ("vllm_tpu_3", 72)])
def test_the_opaque_part_of_the_step_program(name: str, percent: int) -> None:
    with real(f"{name}.trace.json.gz") as found:
        step = found.operations.filter(pl.col("program") == "jit_step_fun")
        opaque = step.filter("opaque")["time_ns"].sum()
        assert found.opaque["time_ns"].sum() >= opaque
        assert "attn" in found.opaque["name"][0]
    assert round(100 * opaque / step["time_ns"].sum()) == percent
