from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.report.blocks import Facts, Line, Section, Table
from mpg_cli.report.model import Ratio, Report
from mpg_cli.report.sections import build
from tests.mpg_cli.report import reports, samples

CAUSES = list(reports.LABELS)
AMOUNTS = st.dictionaries(st.sampled_from(CAUSES), st.integers(1, 10**16), min_size=1)


def section(report: Report, title: str, *, detail: bool = False) -> Section:
    return next(found for found in build(report, detail=detail) if found.title.startswith(title))


def table(found: Section) -> Table:
    return next(block for block in found.blocks if isinstance(block, Table))


def facts(found: Section) -> dict[str, str]:
    return {label: text for block in found.blocks if isinstance(block, Facts) for label, text in block.items}


def verdict(report: Report) -> dict[str, str]:
    return facts(build(report)[1])


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if is_dataclass(value):
        return [text for field in fields(value) for text in strings(getattr(value, field.name))]
    return [text for item in value for text in strings(item)] if isinstance(value, tuple) else []


def number(cell: str) -> Decimal:
    return Decimal(cell.replace(",", ""))


@settings(deadline=None)
@given(AMOUNTS)
def test_ledger_columns_add_up_as_printed(amounts: dict[str, int]) -> None:
    rows = table(section(reports.report(amounts, (), (), ()), "Where")).rows
    leaves = [row for row in rows if row.bar is not None]
    assert len(leaves) == len(amounts)
    assert rows[-1].style == "total"
    assert rows[-1].cells[2] == "100.0"
    for column in (1, 2):
        assert sum(number(row.cells[column]) for row in leaves) == number(rows[-1].cells[column])
        groups = [
            number(row.cells[column])
            for row in rows
            if row.style == "group" or (row.bar is not None and row.cells[0][:2] != "  ")
        ]
        assert sum(groups) == number(rows[-1].cells[column])


@settings(deadline=None)
@given(AMOUNTS.filter(lambda amounts: "productive" in amounts))
def test_verdict_shows_the_ledgers_figures(amounts: dict[str, int]) -> None:
    report = reports.report(amounts, (), (), ())
    computing = next(row for row in table(section(report, "Where")).rows if row.cells[0] == "computing")
    assert verdict(report)[f"RG {computing.cells[2]} %"].startswith(f"{computing.cells[1]} of ")


def test_verdict() -> None:
    assert verdict(reports.single()) == {
        "RG 54.9 %": "0.576 of 1.049 chip-s computed · steps on the host clock",
        "PG —": "no FLOP model for these kernels",
        "SG, MPG —": "no scheduler log was given",
        "largest loss": "unexplained: 0.461 chip-s, 44.0 %",
        "device busy": "56.0 % on a utilisation dashboard: waiting and copying count",
        "trust": "B · idle time is not explained · one profile of six steps · 2 warnings, listed last",
    }


def test_verdict_with_bounds_only() -> None:
    assert verdict(reports.bounds())["RG —"].startswith("between 18.6 % and 90.7 %: 72.1 % of the window")


def test_ratio_partly_observed_says_so() -> None:
    base = reports.single()
    ratio = Ratio(0.5, 5, 10, "job", 0.87)
    found = verdict(replace(base, goodput=replace(base.goodput, sg=ratio)))
    assert found["SG 50.0 %"] == "5 of 10 chip-ns allocated · job · 87.0 % observed"


def test_exposed_communication_is_a_loss_in_every_view() -> None:
    base = reports.report({"productive": 50, "communication": 30, "unknown": 20}, (), (), ())
    moved = tuple(
        replace(row, layer="program") if row.cause == "communication" else row for row in base.ledger
    )
    other = replace(base, ledger=moved, goodput=replace(base.goodput, view="fleet-paper"))
    assert (
        verdict(other)["largest loss"]
        == verdict(base)["largest loss"]
        == "communication, exposed: 30 chip-ns, 30.0 %"
    )
    found = table(section(other, "Where"))
    assert found.columns[3].header == "of program %"
    assert found.rows[0].cells == ("in the program", "80", "80.0", "100.0")
    assert verdict(other)["RG 50.0 %"].endswith("in the program · steps on the host clock")


def test_a_cause_of_two_origins_is_one_row() -> None:
    base = reports.report({"productive": 50, "transient": 30, "unknown": 20}, (), (), ())
    *others, last = base.ledger
    parts = (
        replace(last, chip_ns=5, share=0.05, origin="observed"),
        replace(last, chip_ns=15, origin="inferred"),
    )
    block = table(section(replace(base, ledger=(*others, *parts)), "Where"))
    assert [row.cells[:2] for row in block.rows[2:]] == [
        ("  start of the profile", "30"),
        ("  unexplained", "20"),
        ("total", "100"),
    ]
    parts = (parts[0], replace(parts[1], origin="extrapolated"))
    block = table(section(replace(base, ledger=(*others, *parts)), "Where"))
    assert block.rows[3].cells[3] == "observed, extrapolated"


def test_nothing_lost() -> None:
    assert verdict(reports.report({"productive": 5}, (), (), ()))["largest loss"].startswith("none: all")


def test_a_residual_is_shown() -> None:
    base = reports.single()
    open_account = replace(base, totals=replace(base.totals, capacity_ns=base.totals.capacity_ns + 1_000))
    lines = [block.text for block in section(open_account, "Where").blocks if isinstance(block, Line)]
    assert lines == ["The account does not close: capacity less the rows above is 1.000 µs. This is a bug."]
    assert not [block for block in section(base, "Where").blocks if isinstance(block, Line)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single", "steps 12–17 (6) · 1.049 s per chip"),
        ("two_ranks", "step 12 · 14.46 ms to 18.90 ms per chip"),
        ("no_steps", "device activity (no steps in the trace)"),
        ("empty", "none: there is no chip-time"),
    ],
)
def test_window(name: str, expected: str) -> None:
    line = build(samples.ALL[name]())[0].blocks[1]
    assert isinstance(line, Line)
    assert line.text.startswith(f"window: {expected}")


def test_header_names_missing_ranks_and_the_folder() -> None:
    line = build(reports.two_ranks())[0].blocks[0]
    assert isinstance(line, Line)
    assert line.text == (
        "mpg 0.1.0 · 2 files in dlrm/ · PyTorch 2.9.0 · ranks 0–1 of 8 · 2 × NVIDIA H100 80GB HBM3"
    )


def test_device_shares_add_up() -> None:
    block = table(section(reports.fleet(), "Devices", detail=True))
    shares = [
        i for i, column in enumerate(block.columns) if "%" in column.header and "busy" not in column.header
    ]
    assert len(block.rows) == 64
    assert {sum(number(row.cells[i]) for i in shares) for row in block.rows} == {Decimal(100)}


def test_many_devices_are_summarised() -> None:
    found = section(reports.fleet(), "Devices")
    rows = table(found).rows
    assert [row.cells[0] for row in rows] == ["min", "median", "max", "", "", ""]
    assert rows[3].cells[1] == "37"
    assert isinstance(found.blocks[-1], Line)
    assert "61 devices not shown" in found.blocks[-1].text


def test_devices_without_rank_are_told_apart() -> None:
    base = reports.two_ranks()
    devices = tuple(replace(device, rank=None, device=0) for device in base.devices)
    block = table(section(replace(base, devices=devices), "Devices"))
    assert [row.cells[0] for row in block.rows] == [
        "worker0_step_12.pt.trace.json",
        "worker1_step_12.pt.trace.json",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single", "step 12: 188.1 ms, 1.09 × the median"),
        ("two_ranks", "step 12 on rank 1: 18.90 ms, 1.13 × the median"),
    ],
)
def test_slowest_step(name: str, expected: str) -> None:
    assert facts(section(samples.ALL[name](), "Steps"))["slowest"] == expected


def test_equal_steps_have_no_slowest() -> None:
    base = reports.single()
    same = tuple(replace(step, wall_ns=5_000_000) for step in base.steps)
    assert facts(section(replace(base, steps=same), "Steps"))["wall"] == "5.000 ms each"
    found = facts(section(replace(base, steps=same[:1]), "Steps"))
    assert found["wall"] == "5.000 ms"
    assert "slowest" not in found


def test_repeated_step_names_are_counted() -> None:
    base = reports.single()
    found = section(replace(base, steps=tuple(replace(step, step="forward") for step in base.steps)), "Steps")
    assert facts(found)["count"] == "6 steps on 1 device"
    assert [row.cells[0] for row in table(found).rows[:3]] == ["forward", "forward (2)", "forward (3)"]


def test_steps_of_many_ranks_name_the_slowest() -> None:
    block = table(section(reports.fleet(), "Steps", detail=True))
    assert [column.header.split("\n")[0] for column in block.columns[:4]] == [
        "step",
        "fastest",
        "slowest",
        "slowest",
    ]
    assert len(block.rows) == 20


def test_collectives_name_the_last_rank() -> None:
    line = section(reports.fleet(), "Collectives").blocks[0]
    assert isinstance(line, Line)
    assert "Rank 37 arrives last in 48 of 48 collectives. Matched by order (48)." in line.text


@pytest.mark.parametrize(
    ("ranks", "expected"), [((1,), "Only one rank was given"), ((1, 2), "No collective could be matched")]
)
def test_communication_without_split(ranks: tuple[int, ...], expected: str) -> None:
    base = reports.no_steps()
    devices = tuple(replace(base.devices[0], rank=rank) for rank in ranks)
    line = section(replace(base, devices=devices), "Collectives").blocks[0]
    assert isinstance(line, Line)
    assert expected in line.text


def test_warnings_are_grouped() -> None:
    assert facts(section(reports.fleet(), "Warnings")) == {
        "clock_skew": "the clocks of the hosts differ (×64) [64 files]"
    }


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("detail", [False, True])
def test_strings_are_safe_and_bounded(name: str, detail: bool) -> None:
    for found in build(samples.ALL[name](), detail=detail):
        for text in strings(found):
            assert len(text) <= 500
            assert text.replace("\n", "").isprintable()
            assert not re.search(r"\b(None|nan|inf)\b", text)


@pytest.mark.parametrize("name", samples.ALL)
def test_tables_are_rectangular(name: str) -> None:
    blocks = [
        block for found in build(samples.ALL[name]()) for block in found.blocks if isinstance(block, Table)
    ]
    assert all(len(row.cells) == len(block.columns) for block in blocks for row in block.rows)
