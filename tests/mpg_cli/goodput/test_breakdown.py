"""Device time by stream, kernel, operator and module, on cases for paper; the account by rank."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import activity, breakdown
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.taxonomy import load_taxonomy
from tests.mpg_cli.datasets import call, comm, copy, dataset, host, op, source

RULES = NameRules.load()
PARTS = ("compute_ns", "comm_ns", "memory_ns", "other_ns")
NONE, UNLAUNCHED = breakdown.NO_MODULE, breakdown.NO_LAUNCH


def broken_down(by: str, *sources: Any, window: tuple[int, int] = (0, 1000)) -> pl.DataFrame:
    """The rows; what holds for any: the parts make up the whole."""
    made = dataset(*sources)
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    start, end = window
    spans = loaded.subjects.select(
        "subject", "source", start_ns=pl.lit(start, pl.Int64), end_ns=pl.lit(end, pl.Int64)
    )
    found = breakdown.break_down(by, made, loaded, spans)
    lengths = (min(b, end) - max(a, start) for a, b in loaded.ops.select("start_ns", "end_ns").iter_rows())
    assert found["excl_ns"].sum() == sum(max(length, 0) for length in lengths)
    assert found.select(pl.sum_horizontal(PARTS).alias("incl_ns"))["incl_ns"].equals(found["incl_ns"])
    return found


def table(by: str, *sources: Any, **more: Any) -> dict[str, tuple[int, int, int]]:
    """By key: count, incl_ns, excl_ns."""
    rows = broken_down(by, *sources, **more).select("key", "count", "incl_ns", "excl_ns").iter_rows()
    return {key: tuple(amounts) for key, *amounts in rows}


def module(start: int, dur: int, name: str, **more: Any) -> dict[str, Any]:
    return host(start, dur, f"nn.Module: {name}", "python", **more)


def operator(start: int, dur: int, name: str, **more: Any) -> dict[str, Any]:
    return host(start, dur, name, "op", **more)


# ------------------------------------------------------------------------------------- streams and kernels


def test_kernels() -> None:
    found = broken_down("kernel", source([op(0, 10), op(20, 30), comm(0, 5), copy(995, 10)]))
    assert found.select("key", "count", "kernels", "incl_ns", *PARTS).rows() == [
        ("sgemm_128x64", 2, 2, 40, 40, 0, 0, 0),
        ("Memcpy HtoD (Pinned -> Device)", 1, 0, 5, 0, 0, 5, 0),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1, 1, 5, 0, 5, 0, 0),
    ]
    assert found["share"].to_list() == [0.8, 0.1, 0.1]


def test_streams() -> None:
    rows = [op(0, 10), copy(0, 4), comm(0, 5), op(0, 1) | {"stream": None}]
    assert table("stream", source(rows)) == {
        "stream 7": (2, 14, 14), "stream 9": (1, 5, 5), "stream (not recorded)": (1, 1, 1),
    }  # fmt: skip


def test_streams_of_several_devices() -> None:
    two = source([op(0, 10), op(0, 20, device=1)], rank=3)
    other = source([op(0, 5)], path="other.json")
    assert list(table("stream", two, other)) == [
        "rank 3, device 1, stream 7", "rank 3, device 0, stream 7", "other.json, stream 7",
    ]  # fmt: skip


def test_nothing_in_the_window() -> None:
    for by in breakdown.BREAKDOWNS:
        assert broken_down(by, source([op(2000, 10)])).is_empty()


def test_records_without_length_count() -> None:
    assert table("kernel", source([op(5, 0)])) == {"sgemm_128x64": (1, 0, 0)}


def test_categories() -> None:
    """Of XLA operations; those that run beside the others are kept apart, records of none are one row."""
    rows = source([
        op(0, 10, hlo=0, asynchronous=False), op(10, 30, hlo=1), copy(0, 50, hlo=2, asynchronous=True), comm(0, 5),
    ])  # fmt: skip
    names = ("loop fusion", "loop fusion", "copy-start")
    rows["hlo_ops"] = [
        {"hlo": hlo, "name": f"op.{hlo}", "category": name, "opaque": False, "recompute": False}
        for hlo, name in enumerate(names)
    ]
    assert table("category", rows) == {
        "copy-start, asynchronous": (1, 50, 50),
        "loop fusion": (2, 40, 40),
        breakdown.NO_OPERATION: (1, 5, 5),
    }


def test_categories_without_operations_of_xla() -> None:
    assert table("category", source([op(0, 10), comm(0, 5)])) == {breakdown.NO_OPERATION: (2, 15, 15)}


# ----------------------------------------------------------------------------------------------- operators


def test_operators() -> None:
    """Of a linear layer that calls addmm; inclusive of what it calls, exclusive without."""
    ops = [op(100, 10, correlation=1), op(120, 5, correlation=2), op(130, 3, correlation=3), op(140, 1)]
    events = [operator(0, 10, "aten::linear"), operator(1, 5, "aten::addmm"), operator(20, 5, "aten::addmm")]
    calls = [call(1, at=2), call(2, at=8), call(3, at=40)]
    assert table("op", source(ops, events=[*events, *calls])) == {
        "aten::linear": (1, 15, 5),
        "aten::addmm": (2, 10, 10),
        breakdown.NO_OPERATOR: (1, 3, 3),
        UNLAUNCHED: (1, 1, 1),
    }


def test_an_operator_within_its_like_counts_once() -> None:
    events = [operator(0, 10, "aten::to"), operator(1, 8, "aten::copy_"), operator(2, 6, "aten::to")]
    found = table("op", source([op(100, 10, correlation=1)], events=[*events, call(1, at=3)]))
    assert found == {"aten::to": (2, 10, 10), "aten::copy_": (1, 10, 0)}


# ------------------------------------------------------------------------------------------------- modules


def test_modules() -> None:
    """A block with two layers; one kernel of its own, one launched after it, one without a launch."""
    frames = [module(0, 100, "Block_0"), module(10, 20, "Linear_0"), module(40, 20, "Linear_1")]
    ops = [op(500 + n, n, correlation=n) for n in (1, 2, 4, 8)] + [op(600, 16)]
    calls = [call(1, at=15), call(2, at=45), call(4, at=70), call(8, at=200)]
    found = broken_down("module", source(ops, events=[*frames, *calls]))
    assert found.select("key", "parent", "depth", "count", "incl_ns", "excl_ns").rows() == [
        (UNLAUNCHED, None, 0, 1, 16, 16),
        (NONE, None, 0, 1, 8, 8),
        ("Block_0", None, 0, 1, 7, 4),
        ("Block_0 / Linear_1", "Block_0", 1, 1, 2, 2),
        ("Block_0 / Linear_0", "Block_0", 1, 1, 1, 1),
    ]


def test_calls_of_one_module_are_summed() -> None:
    """Two steps; the third call begins after the window, but its kernel does not."""
    frames = [module(at, 10, "Linear_0") for at in (0, 100, 990)]
    ops = [op(500, 5, correlation=1), op(510, 5, correlation=2), op(520, 5, correlation=3)]
    calls = [call(1, at=1), call(2, at=101), call(3, at=991)]
    found = table("module", source(ops, events=[*frames, *calls]), window=(0, 900))
    assert found == {"Linear_0": (2, 15, 15)}


RANGES = [
    pytest.param("## forward ##", "## forward ##", id="a range of the user's"),
    pytest.param("ProfilerStep#3", NONE, id="a step"),
    pytest.param("step[DECODE bs=4]", NONE, id="a step of an engine"),
    pytest.param("nccl:all_reduce", NONE, id="the wrapper of a collective"),
    pytest.param("## Call CompiledFxGraph fp5r5pk7 ##", NONE, id="the key of a compiled graph"),
]


@pytest.mark.parametrize(("name", "key"), RANGES)
def test_ranges_serve_where_there_is_no_module(name: str, key: str) -> None:
    events = [host(0, 50, name), call(1, at=10), module(20, 10, "Linear_0"), call(2, at=25)]
    ops = [op(100, 5, correlation=1), op(110, 3, correlation=2)]
    assert {k: v[1] for k, v in table("module", source(ops, events=events)).items()} == {
        key: 5,
        "Linear_0": 3,
    }


def test_threads_are_apart() -> None:
    events = [module(0, 50, "Linear_0", thread=2), call(1, at=10), call(2, at=10, thread=2)]
    found = table("module", source([op(100, 5, correlation=1), op(110, 3, correlation=2)], events=events))
    assert found == {NONE: (1, 5, 5), "Linear_0": (1, 3, 3)}


def forward(start: int, sequence: int, **more: Any) -> dict[str, Any]:
    return operator(start, 2, "aten::addmm", sequence=sequence, forward_thread=0, **more)


def backward(start: int, sequence: int, of: int = 1, **more: Any) -> dict[str, Any]:
    return operator(
        start, 5, "AddmmBackward0", sequence=sequence, forward_thread=of, **({"thread": 8} | more)
    )


def test_backward_belongs_to_the_module_of_its_forward() -> None:
    """aten::t carries the number of the node that addmm makes: the last to start counts."""
    events = [
        module(0, 10, "Linear_0"), operator(1, 1, "aten::t", sequence=7, forward_thread=0), forward(3, 6),
        module(20, 10, "Linear_1"), forward(21, 7),
        backward(50, 7), backward(60, 6), call(1, at=51, thread=8), call(2, at=61, thread=8),
    ]  # fmt: skip
    ops = [op(100, 5, correlation=1), op(110, 3, correlation=2)]
    assert table("module", source(ops, events=events)) == {"Linear_1": (1, 5, 5), "Linear_0": (1, 3, 3)}


def test_a_module_that_checkpointing_runs_again() -> None:
    """On the backward thread it is the outermost on the stack; where it has two homes, it stays there."""
    twice = [module(0, 40, "Block_0"), module(5, 10, "Linear_0"), module(60, 10, "Linear_0", thread=8)]
    calls = [call(1, at=6), call(2, at=61, thread=8)]
    ops = [op(100, 5, correlation=1), op(110, 3, correlation=2)]
    assert table("module", source(ops, events=[*twice, *calls])) == {
        "Block_0": (1, 8, 0),
        "Block_0 / Linear_0": (2, 8, 8),
    }
    other = [module(200, 40, "Block_1"), module(205, 10, "Linear_0")]
    assert table("module", source(ops, events=[*twice, *other, *calls])) == {
        "Block_0": (1, 5, 0),
        "Block_0 / Linear_0": (1, 5, 5),
        "Linear_0": (1, 3, 3),
    }


def test_modules_that_run_inside_each_other_end_nowhere() -> None:
    frames = [module(0, 40, "A_0"), module(5, 10, "B_0"), module(100, 40, "B_0"), module(105, 10, "A_0")]
    found = table("module", source([op(200, 5, correlation=1)], events=[*frames, call(1, at=6)]))
    assert sum(excl for _, _, excl in found.values()) == 5


def test_a_sequence_number_of_two_threads() -> None:
    """Numbers are counted per thread: 7 is ambiguous, but 8 tells that thread 1 in PyTorch's count is ours."""
    frames = [module(0, 10, "Linear_0"), module(0, 10, "Linear_9", thread=3)]
    twice = [forward(1, 7), forward(1, 7, thread=3)]
    calls = [backward(50, 7), call(1, at=51, thread=8)]
    ops = [op(100, 5, correlation=1)]
    assert list(table("module", source(ops, events=[*frames, *twice, *calls]))) == [NONE]
    told = [forward(4, 8), backward(60, 8), call(2, at=61, thread=8)]
    ops.append(op(110, 3, correlation=2))
    assert table("module", source(ops, events=[*frames, *twice, *calls, *told])) == {"Linear_0": (1, 8, 8)}


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=6),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=6),
)
def test_the_innermost_module_launched_it(given_frames: Any, work: list[tuple[int, int]]) -> None:
    """Frames one in the other: each starts and ends within the last."""
    frames, low, high = [], 0, 60
    for n, (start, length) in enumerate(given_frames):
        low, high = low + start, min(high, low + start + length)
        if low < high:
            frames.append((low, high, f"M{n}"))
    events = [module(a, b - a, name) for a, b, name in frames]
    calls = [call(n + 1, at=at) for n, (at, _) in enumerate(work)]
    found = table("module", source([op(100, ns, correlation=n + 1) for n, (_, ns) in enumerate(work)],
                                   events=[*events, *calls]))  # fmt: skip
    incl: dict[str, int] = {}
    excl: dict[str, int] = {}
    for at, ns in work:
        around = [name for a, b, name in frames if a <= at < b]
        paths = [" / ".join(around[: n + 1]) for n in range(len(around))] or [NONE]
        for path in paths:
            incl[path] = incl.get(path, 0) + ns
        excl[paths[-1]] = excl.get(paths[-1], 0) + ns
    assert {key: row[1:] for key, row in found.items()} == {k: (v, excl.get(k, 0)) for k, v in incl.items()}


# --------------------------------------------------------------------------------------------------- ranks


def test_ranks() -> None:
    """Two devices of rank 10, one of rank 2, one of a file without a rank: in order, and nothing is lost."""
    made = dataset(
        source([op(0, 1), op(0, 1, device=1)], rank=10),
        source([op(0, 1)], rank=2),
        source([op(0, 1)], path="x"),
    )
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    amounts = [(0, "productive", 5), (0, "input", 2), (1, "ideal", 3), (2, "ideal", 4), (3, "input", 6)]
    schema = {"subject": pl.Int64, "cause": pl.String, "chip_ns": pl.Int64}
    rows = pl.DataFrame(amounts, schema=schema, orient="row").with_columns(
        origin=pl.lit("observed"), evidence=pl.lit(None, pl.Int64)
    )
    parts = breakdown.by_rank(rows, loaded, load_taxonomy())
    figures = {key: (p.capacity_ns, p.allocated_ns, p.productive_ns, p.ideal_ns) for key, p in parts.items()}
    assert figures == {"2": (4, 4, 4, 4), "10": (10, 10, 8, None), "x": (6, 6, 0, 0)}
    assert list(parts) == ["2", "10", "x"]
