"""Collectives, steps, inference, segments and modules, cell by cell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.report.model import Breakdown, Communicator, InferenceStep, Segment, StepLedger
from mpg_cli.report.sections import breakdown
from tests.mpg_cli.report import attributed, reports
from tests.mpg_cli.report.parts import cells, facts, headers, lines, section, tables

# ---------------------------------------------------------------------------------------------- collectives


def test_collectives_say_why_a_rank_was_late() -> None:
    found = section(attributed.starved(), "Collectives", detail=True)
    assert lines(found)[0] == (
        "Over all ranks 3.546 s of transfer and 33.89 s of waiting for the last rank. Rank 3 arrives last in "
        "40 of 40 collectives with a clear order, not counting 7 near ties and 1 at the start of the recording. "
        "82.8 % of this is hidden behind computing. The last rank was late because of: input (40)."
    )
    table = tables(found)[0]
    by_index = {row[0]: dict(zip(headers(table), row, strict=True)) for row in cells(table)}
    assert by_index["0"]["why late (ms)"] == "start"
    assert (by_index["6"]["last rank"], by_index["6"]["why late (ms)"]) == ("5 ~", "—")
    assert (by_index["7"]["last rank"], by_index["7"]["why late (ms)"]) == ("3", "input +118.6")
    assert (by_index["2"]["bus GB/s"], by_index["7"]["bus GB/s"]) == ("104.4", "—")
    assert "~ near tie: either of the last two ranks may have been last." in lines(found)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((24_576, 192, None), ["size (kB)", "24.576", "0.192", "—"]),
        ((2_000_500, 499, 0), ["size (MB)", "2.001", "0.000", "0.000"]),
        ((1_000_000_000,), ["size (GB)", "1.000"]),
        ((0,), ["size (kB)", "0.000"]),
    ],
)
def test_sizes_in_one_unit(sizes: tuple[int | None, ...], expected: list[str]) -> None:
    base = reports.two_ranks()
    found = tuple(replace(base.collectives[0], index=i, bytes=size) for i, size in enumerate(sizes))
    table = tables(section(replace(base, collectives=found), "Collectives"))[0]
    place = next(i for i, header in enumerate(headers(table)) if header.startswith("size"))
    assert [headers(table)[place], *(row[place] for row in cells(table))] == expected


def test_communicators() -> None:
    table = tables(section(attributed.starved(), "Collectives"))[1]
    assert headers(table) == [
        "count", "time (s)", "hidden %", "exposed (s)", "transfer (s)", "wait (s)", "last most often", "bus GB/s",
        "ranks", "scope", "collective, group",
    ]  # fmt: skip
    assert cells(table)[1] == [
        "24", "2.400", "84.2", "0.380", "0.300", "0.148", "rank 3 (21)", "104.4", "0–7", "intra-node",
        "all_reduce, dp",
    ]  # fmt: skip


def test_communicators_of_one_rank_have_a_lower_bound_and_a_reason() -> None:
    found = section(attributed.serving(), "Collectives")
    assert lines(found)[-1] == "Transfer and waiting not known: only rank 0 was given."
    row = dict(zip(headers(tables(found)[0]), cells(tables(found)[0])[0], strict=True))
    assert (row["bus GB/s"], row["hidden %"], row["collective, group"]) == ("≥13.0", "55.6", "all_reduce")
    assert "wait (ms)" not in row


def test_part_of_the_ranks_of_a_group() -> None:
    base = attributed.serving()
    one: Communicator = replace(base.communicators[0], ranks=(0, 1, 2, 5), size=8, group="tp")
    table = tables(section(replace(base, communicators=(one,)), "Collectives"))[0]
    row = dict(zip(headers(table), cells(table)[0], strict=True))
    assert (row["ranks"], row["collective, group"]) == ("0–2, 5 of 8", "all_reduce, tp")


# ---------------------------------------------------------------------------------------------------- steps


def test_the_spread_and_the_outliers_of_the_steps() -> None:
    found = section(attributed.starved(), "Steps")
    shown = dict(facts(found))
    assert shown["wall"] == "median 177.0 ms · min 175.0 ms · 95th percentile 184.0 ms · max 186.0 ms"
    assert shown["spread"] == "1.200 ms median absolute deviation, 0.7 % of the median"
    assert headers(tables(found)[1]) == [
        "step",
        "on",
        "wall (ms)",
        "longer by (ms)",
        "most of it",
        "grew by (ms)",
    ]
    assert cells(tables(found)[1]) == [["17", "rank 3", "186.0", "9.0", "input pipeline", "8.8"]]


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 10**15), min_size=1),
        min_size=1,
        max_size=4,
    )
)
def test_every_step_adds_up_as_printed(steps: list[dict[str, int]]) -> None:
    rows = tuple(StepLedger("a", None, 0, i, sum(causes.values()), causes) for i, causes in enumerate(steps))
    table = tables(section(replace(reports.single(), per_step=rows), "Every step"))[0]
    totals = {cause: sum(step.get(cause, 0) for step in steps) for step in steps for cause in step}
    shares = [column.startswith("rest") or column[:1] in totals for column in headers(table)]
    assert sum(shares) == min(len(totals), 7)
    for row in cells(table):
        assert sum(round(10 * float(cell)) for cell, share in zip(row, shares, strict=True) if share) == 1000


def test_the_columns_of_a_step_are_the_largest_causes() -> None:
    found = section(attributed.starved(), "Every step")
    assert headers(tables(found)[0])[2:] == [
        "wall (ms)", "ideal %", "memory bound %", "kernel inefficiency %", "communication wait %",
        "communication %", "input %", "rest %",
    ]  # fmt: skip
    assert lines(found)[0].startswith("rest: launch-bound; recomputation; computing, no model; host sync")


# --------------------------------------------------------------------------------- inference, parts and trees


def test_inference_steps_by_phase() -> None:
    sums, steps = tables(section(attributed.serving(), "Inference steps"))
    assert cells(sums) == [
        ["decode", "12", "78", "78", "108.0", "96.0", "87.5", "81.2", "812"],
        ["diffusion", "1", "—", "—", "28.0", "—", "—", "—", "—"],
        ["prefill", "1", "15", "15,360", "28.0", "28.0", "99.8", "98.4", "549,356"],
    ]
    assert cells(steps)[0] == [
        "27.96", "28.00", "99.8", "98.4", "15", "15,360", "prefill", "step[EXTEND bs=15 toks=15360]",
    ]  # fmt: skip


def test_tokens_count_only_where_the_device_time_is_known() -> None:
    step = InferenceStep("a", 0, 0, "d", "decode", 4, 4, 9, 2_000_000_000, None, None)
    report = replace(
        attributed.serving(), inference=(step, replace(step, device_ns=None), replace(step, tokens=None))
    )
    row = cells(tables(section(report, "Inference steps"))[0])[0]
    assert (row[3], row[8]) == ("8", "2")


def test_segments_end_in_their_sum() -> None:
    table = tables(section(attributed.starved(), "The account in parts"))[0]
    assert table.rows[-1].style == "total"
    assert cells(table)[-1] == ["total", "8.496", "61.4", "38.2", "23.5", "memory-bound 16.5 %"]


def test_of_many_segments_those_that_compute_least_are_shown() -> None:
    segments = tuple(Segment("rank", str(i), 100, 100, 90 - i, None, {"unknown": 10 + i}) for i in range(20))
    found = section(replace(attributed.starved(), segments=segments), "The account in parts")
    shown = cells(tables(found)[0])
    assert shown[0] == ["19", "0.100", "71.0", "—", "—", "unexplained 29.0 %"]
    assert shown[-1][:3] == ["total", "2.000", "80.5"]
    assert len(shown) == 17
    assert lines(found) == ["4 more parts."]


def test_modules_as_a_tree() -> None:
    found = section(attributed.serving(), "Device time divided")
    assert [(row[0], row[2], row[-1]) for row in cells(tables(found)[0])] == [
        ("480.0", "1.0", "LlamaModel_0"),
        ("300.0", "20.0", "  LlamaDecoderLayer_0"),
        ("200.0", "200.0", "    LlamaMLP_0"),
        ("80.0", "80.0", "    LlamaAttention_0"),
        ("179.0", "179.0", "  LlamaRMSNorm_0"),
        ("20.0", "20.0", "(no module)"),
    ]
    assert headers(tables(found)[1])[-1] == "stream"
    assert "own (ms)" not in headers(tables(found)[1])


def test_rows_that_are_not_shown_are_counted() -> None:
    row = attributed.serving().breakdown[-1]
    many = tuple(replace(row, key=str(i)) for i in range(23))
    found = section(replace(attributed.serving(), breakdown=many), "Device time divided")
    assert (len(cells(tables(found)[0])), lines(found)[-1]) == (20, "The JSON report lists 3 more rows.")
    assert len(lines(section(replace(attributed.serving(), breakdown=many[:20]), "Device time divided"))) == 1


def test_operators_have_their_own_time_where_others_are_inside() -> None:
    mm = Breakdown("op", "aten::mm", None, 0, 4, 4, 9_000, 9_000, 9_000, 0, 0, 0, 0.9)
    linear = replace(mm, key="aten::linear", incl_ns=10_000, excl_ns=1_000, compute_ns=9_000, memory_ns=1_000)
    found = section(replace(attributed.serving(), breakdown=(mm, linear)), "Device time divided")
    assert headers(tables(found)[0]) == [
        "time (µs)", "share %", "own (µs)", "compute %", "comm %", "memory %", "count", "kernels", "op",
    ]  # fmt: skip
    assert cells(tables(found)[0]) == [
        ["10.00", "90.0", "1.00", "90.0", "0.0", "10.0", "4", "4", "aten::linear"],
        ["9.00", "90.0", "9.00", "100.0", "0.0", "0.0", "4", "4", "aten::mm"],
    ]


KEYS = st.sampled_from("abcdefgh")


@settings(deadline=None)
@given(
    st.lists(st.tuples(KEYS, st.none() | KEYS, st.integers(0, 50)), unique_by=lambda row: row[0]),
    st.integers(0, 9),
)
def test_a_tree_of_anything_shows_the_largest_rows_once(
    rows: list[tuple[str, str | None, int]], most: int
) -> None:
    """Circles and missing parents included; where the parent is shown above, the row is one level below it."""
    given_rows = [
        Breakdown("module", key, parent, 0, 1, 1, ns, ns, ns, 0, 0, 0, 0.0) for key, parent, ns in rows
    ]
    shown = breakdown.tree(given_rows, most)
    assert (
        sorted(row.incl_ns for _, row in shown)
        == sorted(ns for _, _, ns in rows)[len(rows) - min(most, len(rows)) :]
    )
    assert len({row.key for _, row in shown}) == len(shown)
    levels: dict[str, int] = {}
    for level, row in shown:
        assert level == 0 or level == levels[str(row.parent)] + 1
        if level == 0 and row.parent in levels:
            raise AssertionError(f"{row.key} belongs below {row.parent}")
        levels[row.key] = level


def test_a_deep_tree_is_no_recursion() -> None:
    deep = tuple(
        Breakdown("module", f"m{i}", f"m{i - 1}" if i else None, i, 1, 1, 9_999 - i, 1, 1, 0, 0, 0, 0.1)
        for i in range(5_000)
    )
    assert [level for level, _ in breakdown.tree(deep, 5_000)] == list(range(5_000))
    table = tables(
        section(replace(attributed.serving(), breakdown=deep), "Device time divided", detail=True)
    )[0]
    assert cells(table)[-1][-1].startswith("  " * 12 + "m")
