"""Operations of XLA programs as the source of FLOPs. On these chips 1000 bf16 FLOPs take a nanosecond."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import hlo, operators, pricing
from mpg_cli.goodput.chips import find_chips
from mpg_cli.goodput.costing import batch_annotations
from mpg_cli.goodput.models import Models
from tests.mpg_cli.datasets import Row, dataset, op, source
from tests.mpg_cli.goodput.judged import CATALOGUE, activity_of, causes, judge, told

# a TPU states its own peak; the catalogue has no chip of this name
TPU = {"name": "Small TPU", "peak_flops": 10**12, "bandwidth": 100 * 10**9}
GPU = {"name": "Tiny"}
DEFAULTS: Row = {
    "program_id": "7", "program": "jit_f", "category": "convolution fusion", "flops": 2000, "dtype": "bf16",
    "bytes": 0, "flops_source": "hlo", "opaque": False, "recompute": False,
}  # fmt: skip


def about(number: int, **more: Any) -> Row:
    return {"hlo": number, "name": f"fusion.{number}"} | DEFAULTS | more


def ran(start: int, dur: int, number: int = 0, **more: Any) -> Row:
    return op(start, dur, **({"name": f"fusion.{number}", "hlo": number, "stream": 1} | more))


def profile(ops: list[Row], operations: list[Row], device: Row = TPU, **more: Any) -> Any:
    made = source(ops, format="xla", **more)
    for row in made["devices"]:
        row.update(device)
    return made | {"hlo_ops": operations}


# ------------------------------------------------------------------------------------------------ executions

COLUMNS = {
    "at": pl.UInt32, "subject": pl.Int64, "source": pl.Int32, "stream": pl.Int64, "start_ns": pl.Int64,
    "dur_ns": pl.Int64, "name": pl.String, "hlo": pl.Int64, "part": pl.Int64,
}  # fmt: skip
Record = tuple[int, int, str, int | None]  # stream, operation, kernel, part


def frame(records: list[Record], lengths: list[int] | None = None) -> pl.DataFrame:
    """Records one after the other."""
    lengths = lengths or [1] * len(records)
    rows = [
        (at, 0, 0, stream, 100 * at, length, name, operation, part)
        for at, ((stream, operation, name, part), length) in enumerate(zip(records, lengths, strict=True))
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def numbered(records: list[Record]) -> list[int]:
    """The execution of each record, numbered in order of appearance."""
    found = hlo._executions(frame(records).sample(fraction=1, shuffle=True, seed=1)).sort("at")
    return renumbered(found["execution"].to_list())


def renumbered(keys: list[Any]) -> list[int]:
    first: dict[Any, int] = {}
    return [first.setdefault(key, len(first)) for key in keys]


def expected(records: list[Record]) -> list[int]:
    """Stream by stream and record by record, as the description of `_executions` says it."""
    keys: list[Any] = [None] * len(records)
    for stream in {record[0] for record in records}:
        mine = [at for at, record in enumerate(records) if record[0] == stream]
        for number, group in enumerate(neighbours(mine, records)):
            times = Counter(records[at][2] for at in group)
            seen: Counter[str] = Counter()
            for at in group:
                name = records[at][2]
                keys[at] = (stream, number, seen[name] * min(times.values()) // times[name])
                seen[name] += 1
        begun: Counter[int] = Counter()
        for at in mine:
            _, operation, _, part = records[at]
            begun[operation] += part == 0
            if part is not None:
                keys[at] = (stream, operation, "interrupted", begun[operation])
    return renumbered(keys)


def neighbours(mine: list[int], records: list[Record]) -> list[list[int]]:
    groups: list[list[int]] = []
    for at in mine:
        if groups and records[groups[-1][-1]][1] == records[at][1]:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def kernels(text: str, operation: int = 0, stream: int = 1) -> list[Record]:
    return [(stream, operation, name, None) for name in text]


@pytest.mark.parametrize(
    ("records", "executions"),
    [
        pytest.param(kernels("aaa"), [0, 1, 2], id="each record of a TPU is one"),
        pytest.param(kernels("ab"), [0, 0], id="two kernels"),
        pytest.param(kernels("abab"), [0, 0, 1, 1], id="a kernel comes again"),
        pytest.param(kernels("abbabb"), [0, 0, 0, 1, 1, 1], id="one runs twice in each"),
        pytest.param(kernels("abbb"), [0, 0, 0, 0], id="one runs three times"),
        pytest.param(
            kernels("ab") + kernels("c", 1) + kernels("ab"), [0, 0, 1, 2, 2], id="others in between"
        ),
        pytest.param(
            [(1, 0, "a", None), (2, 0, "b", None), (1, 0, "b", None)], [0, 1, 0], id="streams go apart"
        ),
        pytest.param(
            [(1, 0, "w", 0), (1, 1, "b", None), (1, 0, "w", 1), (1, 1, "b", None), (1, 0, "w", 2)],
            [0, 1, 0, 2, 0],
            id="a loop between its passes",
        ),
        pytest.param(
            [(1, 0, "w", 0), (1, 0, "w", 1), (1, 0, "w", 0), (1, 0, "w", None), (1, 0, "w", 0)],
            [0, 0, 1, 2, 3],
            id="interrupted again, and whole",
        ),
    ],
)
def test_executions(records: list[Record], executions: list[int]) -> None:
    assert numbered(records) == executions == expected(records)


def test_no_executions() -> None:
    assert hlo._executions(frame([])).is_empty()


TPU_RECORD = st.tuples(st.just(1), st.integers(0, 2), st.just("w"), st.sampled_from([None, 0, 1, 2]))
GPU_RECORD = st.tuples(st.integers(1, 2), st.integers(3, 4), st.sampled_from("abc"), st.none())


@settings(deadline=None)
@given(st.one_of(st.lists(TPU_RECORD, max_size=14), st.lists(GPU_RECORD, max_size=14)))
def test_any_executions(records: list[Record]) -> None:
    assert numbered(records) == expected(records)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(GPU_RECORD, st.integers(0, 1 << 40)), max_size=12))
def test_shares_of_an_execution_make_one(drawn: list[tuple[Record, int]]) -> None:
    records, lengths = [record for record, _ in drawn], [length for _, length in drawn]
    found = hlo._shared(hlo._executions(frame(records, lengths)))
    sums: defaultdict[int, float] = defaultdict(float)
    whole: Counter[int] = Counter()
    for execution, length, share in found.select("execution", "dur_ns", "share").iter_rows():
        sums[execution] += share
        whole[execution] += length
    assert dict(sums) == pytest.approx(dict.fromkeys(sums, 1.0), rel=1e-12)
    for execution, length, share in found.select("execution", "dur_ns", "share").iter_rows():
        if whole[execution]:
            assert share == pytest.approx(length / whole[execution], rel=1e-12)


# ------------------------------------------------------------------------------------------------- the costs


def filled(made: Any, basis: str = "peak") -> pl.DataFrame:
    data = dataset(made)
    loaded, nested = activity_of(data), operators.load(data)
    chips, reason = find_chips(data, loaded, CATALOGUE, None)
    assert not reason
    annotations = batch_annotations(data.scan("host_events"))
    priced = pricing.price(loaded.ops, nested, annotations, chips, Models.load(), basis)
    operations = hlo.load(data)
    assert operations is not None
    return hlo.fill(priced, operations, chips, basis).kernels.sort("start_ns")


def test_flops_and_bytes_are_shared_by_duration() -> None:
    """1 and 3 of 4 ns of the first execution, 2 and 6 of 8 of the second."""
    ops = [
        ran(at, dur, name=name) for at, dur, name in [(0, 1, "a"), (5, 3, "b"), (10, 2, "a"), (20, 6, "b")]
    ]
    found = filled(profile(ops, [about(0, flops=8000, bytes=400)], GPU))
    assert found.select("flops", "bytes", "ideal_ps").rows() == [
        (2000.0, 100.0, 2000), (6000.0, 300.0, 6000), (2000.0, 100.0, 2000), (6000.0, 300.0, 6000),
    ]  # fmt: skip
    assert found["model"].to_list() == ["hlo"] * 4
    assert found["inferred"].to_list() == [False] * 4


def test_an_interrupted_operation_pays_once() -> None:
    parts = [ran(0, 5, part=0), ran(5, 10, 1), ran(15, 5, part=1), ran(20, 10, 1), ran(30, 10, part=2)]
    found = judge(profile(parts, [about(0, flops=8000), about(1, flops=0)]))
    assert found.ideal_ns == 8
    assert {row["operator"]: row["count"] for row in found.ops.iter_rows(named=True)} == {
        "jit_f/fusion.0": 1, "jit_f/fusion.1": 2,
    }  # fmt: skip


def test_a_window_takes_its_part_of_an_operation() -> None:
    step = {"step": 1, "name": "1", "start_ns": 5, "end_ns": 50}
    found = judge(profile([ran(0, 10), ran(20, 10)], [about(0, flops=8000)], steps=[step]))
    assert (found.ideal_ns, causes(found)["kernel_inefficiency"]) == (4 + 8, 1 + 2)


@pytest.mark.parametrize(
    ("dtype", "device", "rate"),
    [
        ("bf16", TPU, 1000), ("f32", TPU, 1000), ("f16", TPU, 1000), ("s8", TPU, None), ("f64", TPU, None),
        ("bf16", GPU, 1000), ("f32", GPU, None), ("f32", {"name": "Tensor"}, 100),
    ],
)  # fmt: skip
def test_a_tpu_multiplies_float_in_bf16(dtype: str, device: Row, rate: int | None) -> None:
    row = filled(profile([ran(0, 1000)], [about(0, flops=80_000, dtype=dtype)], device)).row(0, named=True)
    assert row["ideal_ps"] == (None if rate is None else 80_000 * 1000 // rate)
    assert row["operator"] == "jit_f/fusion.0"


@pytest.mark.parametrize(
    ("more", "peak_ps"),
    [
        ({"flops": 0, "dtype": None}, 0.0), ({"flops": 0, "dtype": "f64"}, 0.0), ({"flops": None}, None),
        ({"flops": -5}, None), ({"dtype": None}, None),
    ],
)  # fmt: skip
def test_no_flops_take_no_time_and_unknown_ones_an_unknown_time(more: Row, peak_ps: float | None) -> None:
    row = filled(profile([ran(0, 10)], [about(0, **({"bytes": 500} | more))])).row(0, named=True)
    assert (row["peak_ps"], row["bytes_ps"]) == (peak_ps, 5000.0)


def test_recomputing_is_no_useful_work() -> None:
    again = about(1, name="fusion.0.remat", recompute=True)
    found = judge(profile([ran(0, 10), ran(10, 5, 1)], [about(0), again]))
    assert causes(found) == {"ideal": 2, "kernel_inefficiency": 8, "recompute": 5}
    assert (found.mfu_ns, found.hfu_ns, found.reason) == (2, 4, "")


def test_programs_of_one_name_go_apart() -> None:
    operations = [
        about(0, name="dot.1"), about(1, name="dot.1", program_id="8"), about(2, name="add.1", program="jit_g"),
        about(3, name="mul.1", program=None), about(4, name="dot.1", program_id=None),
    ]  # fmt: skip
    found = judge(profile([ran(10 * number, 5, number) for number in range(5)], operations))
    assert sorted(found.ops["operator"].cast(pl.String)) == [
        "jit_f(7)/dot.1", "jit_f(8)/dot.1", "jit_f/dot.1", "jit_g/add.1", "mul.1",
    ]  # fmt: skip


def test_where_the_flops_come_from() -> None:
    operations = [
        about(0, flops_source="model_flops", flops=5000), about(1, flops_source="custom_call", flops=6000),
        about(2, flops_source="flops", flops=0), about(3, flops_source="hlo", flops=5000),
    ]  # fmt: skip
    found = judge(profile([ran(10 * number, 10, number) for number in range(4)], operations))
    assert found.basis == (
        "bf16 peak of Small TPU (from the trace), FLOPs of what custom calls state and the compiled programs (HLO) and "
        "the profiler's model_flops"
    )
    kinds = dict(found.ops.select(pl.col("operator").cast(pl.String), "flops_source").iter_rows())
    assert kinds == {f"jit_f/fusion.{n}": row["flops_source"] for n, row in enumerate(operations)}
    assert (
        judge(profile([ran(0, 10)], [about(0, flops=0)])).basis
        == "peak of Small TPU (from the trace), no matrix product ran"
    )


def test_operations_above_the_peak_are_faults() -> None:
    """40 of 50 ns at 5 times the peak: named, and not averaged in."""
    found = judge(profile([ran(0, 10), ran(10, 40, 1)], [about(0), about(1, flops=200_000)]))
    assert causes(found) == {"ideal": 2, "kernel_inefficiency": 8, "unmodelled": 40}
    assert "jit_f/fusion.1 would have run at 500 % of the chip's peak (80.0 %" in told(found)["above_peak"]
    assert found.reason.startswith(
        "models without a fault cover 20.0 % of computing time, under 90 %: above peak: 80"
    )


# -------------------------------------------------------------------------------------------- opaque operations


def opaque(share: int, **more: Any) -> Any:
    """`share` of 1000 ns in two calls of one custom call, the rest in a product."""
    name = {"category": "custom-call", "opaque": True, "flops": None, "flops_source": None}
    ops = [ran(0, 1000 - share), ran(1000, share // 2, 1), ran(2000, share - share // 2, 2)]
    calls = [about(n, name=f"attention.{n}", **name) for n in (1, 2)]
    return judge(profile(ops, [about(0, flops=100_000), *calls], **more))


def test_opaque_operations_are_unmodelled_and_the_reason_names_their_share() -> None:
    found = opaque(250)
    assert causes(found) == {"ideal": 100, "kernel_inefficiency": 650, "unmodelled": 250}
    assert found.reason == (
        "models cover 75.0 % of computing time, under 90 %; 25.0 % is in custom calls whose work XLA cannot see "
        "(jit_f/attention 25.0 % in 2 places): say --flops-per-step"
    )
    assert told(found)["opaque_operations"].startswith(
        "25.0 % of computing is in custom calls whose work XLA cannot see (jit_f/attention 25.0 % in 2 places): they"
    )
    assert found.unmodelled.select("op", "time_ns").rows() == [
        ("jit_f/attention.1", 125), ("jit_f/attention.2", 125),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("share", "reason", "notice"), [(100, False, True), (101, True, True), (10, False, False)]
)
def test_a_little_of_it_only_lowers_pg(share: int, reason: bool, notice: bool) -> None:
    found = opaque(share)
    assert bool(found.reason) is reason
    assert ("opaque_operations" in told(found)) is notice


def test_what_is_not_opaque_and_has_no_flops_is_named() -> None:
    operations = [
        about(0),
        about(1, name="sort.1", flops=None),
        about(2, name="moe.7", flops=None, opaque=True),
    ]
    found = judge(profile([ran(0, 50), ran(100, 30, 1), ran(200, 20, 2)], operations))
    assert found.reason == (
        "models cover 50.0 % of computing time, under 90 %: without one: jit_f/sort.1 30.0 %; 20.0 % is in custom "
        "calls whose work XLA cannot see (jit_f/moe 20.0 %): say --flops-per-step"
    )


def test_nothing_is_known_of_any_operation() -> None:
    found = judge(profile([ran(0, 50)], [about(0, flops=None)]))
    assert found.rows is None
    assert found.reason.startswith(
        "no operation that ran has known FLOPs: the profile holds no programs and no model"
    )
    half = judge(profile([ran(0, 50), ran(60, 50, 1)], [about(0, flops=None), about(1)]))
    assert half.reason.endswith("under 90 %: without one: jit_f/fusion.0 50.0 %; say --flops-per-step")


def test_opaque_communication_is_no_computing() -> None:
    calls = [about(0), about(1, name="all-reduce.1", opaque=True)]
    found = judge(profile([ran(0, 50), ran(60, 50, 1, name="all-reduce.1", collective="all-reduce")], calls))
    assert (found.reason, "opaque_operations" in told(found)) == ("", False)
