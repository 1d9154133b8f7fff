"""The sections that say why the chips waited, cell by cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpg_cli.report import layout
from mpg_cli.report.blocks import Column, Row, Table
from mpg_cli.report.model import (
    Collective,
    Dashboard,
    Evidence,
    Finding,
    Price,
)
from mpg_cli.report.sections import build, remarks
from tests.mpg_cli.report import attributed, rendered, reports
from tests.mpg_cli.report.parts import cells, facts, headers, lines, section, tables, titles

# ------------------------------------------------------------------------------------------------ findings


def test_the_first_finding() -> None:
    found = section(attributed.starved(), "Do this first")
    assert lines(found)[0] == "1  Rank 3's data loader starves it; seven ranks wait in the next all-reduce"
    assert facts(found)[:6] == [
        (
            "gain",
            (
                "at most 1.28 × · takes 1.879 of 8.496 chip-s, 22.1 % · "
                "costs 0.0013 in the window, 566 per hour on 1,024 chips"
            ),
        ),
        ("where", "rank 3, steps 12 to 17"),
        ("evidence", "122 ms in the loader before each forward pass on rank 3, 3 ms on the others"),
        (
            "evidence",
            (
                f"the longest [{attributed.LOADER} · ts 1365627862757064.125 · 131.1 ms · thread 21716"
                " · train/rank3.json.gz]"
            ),
        ),
        ("usual", "; ".join(attributed.FIXES[:2])),
        ("more", "mpg explain input"),
    ]
    assert lines(found)[-1].startswith("1 more finding, with --detail. Each gain is an upper bound")


@pytest.mark.parametrize(
    ("gains", "numbers", "note"),
    [
        ((4.0, 3.0, 2.0, 1.5, 1.5), [1, 2, 3], "2 more findings, with --detail. "),
        ((1.1, 1.1, 1.1, 1.5, 1.2), [1, 2, 3, 4], "1 more finding, with --detail. "),
        ((1.1, 1.1, 1.1, None, 1.2), [1, 2, 3, 5], "Number 5 is shown for its gain, the largest. 1 more finding, "),
        ((None, None, None, None, 1.2), [1, 2, 3, 5], "Number 5 is shown for its gain, the largest. 1 more finding, "),
    ],
)  # fmt: skip
def test_a_number_out_of_turn_is_explained(
    gains: tuple[float | None, ...], numbers: list[int], note: str
) -> None:
    base = attributed.starved()
    found = tuple(replace(base.findings[0], gain=gain, title="x") for gain in gains)
    shown = lines(section(replace(base, findings=found), "Do this first"))
    assert shown[:-1] == [f"{number}  x" for number in numbers]
    assert shown[-1].startswith(note)


def test_all_findings_in_detail_in_the_order_of_the_report() -> None:
    report = attributed.starved()
    found = section(report, "Do this first", detail=True)
    assert lines(found)[:-1] == [f"{i}  {finding.title}" for i, finding in enumerate(report.findings, 1)]
    assert [label for label, _ in facts(found)][:7] == ["gain", "where", *["evidence"] * 4, "usual"]
    assert lines(found)[-1].startswith("Each gain is")


@pytest.mark.parametrize(
    ("chips", "expected"),
    # a quarter of the chip-time at 4 per chip and hour: 1 per hour and chip
    [
        (None, "costs 0.50 in the window, 8.00 per hour on 8 chips"),
        (1, "costs 0.50 in the window, 1.00 per hour on 1 chip"),
    ],
)
def test_cost(chips: int | None, expected: str) -> None:
    base = attributed.starved()
    finding = replace(base.findings[0], share=0.25, cost=0.5)
    report = replace(base, findings=(finding,), price=Price(4.0, chips))
    assert facts(section(report, "Do this first"))[0][1].endswith(f" · {expected}")
    for unpriced in (replace(report, price=None), replace(report, findings=(replace(finding, cost=None),))):
        assert "cost" not in facts(section(unpriced, "Do this first"))[0][1]


def test_a_finding_without_bound_and_events() -> None:
    plain = Finding("x", "low", "no such cause!", "none", "", 0, 0.0, None, "", (Evidence("a"),), ())
    found = facts(section(replace(attributed.starved(), findings=(plain,)), "Do this first"))
    assert found == [("gain", "no upper bound known · takes 0.000 of 8.496 chip-s, 0.0 %"), ("evidence", "a")]


def test_a_name_that_the_sentence_has_is_not_repeated() -> None:
    event = Evidence("3 ms in aten::item", "", "aten::item", None, 5_000, None)
    plain = replace(attributed.starved().findings[0], evidence=(event,))
    found = facts(section(replace(attributed.starved(), findings=(plain,)), "Do this first"))
    assert ("evidence", "3 ms in aten::item [ts 5]") in found


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ({"ideal": 999, "unknown": 1}, "Nothing worth fixing here: no finding is large enough."),
        (
            {"ideal": 40, "unknown": 50, "unmodelled": 10},
            (
                "Nothing worth fixing was found, but 50.0 % of the chip-time is idle that nothing in the files "
                "explains, 10.0 % is computing without a model."
            ),
        ),
        (
            {"productive": 100},
            "Nothing worth fixing was found, but 100.0 % is computing that could not be judged.",
        ),
    ],
)
def test_nothing_to_fix_is_an_answer(amounts: dict[str, int], expected: str) -> None:
    assert lines(section(reports.report(amounts, (), (), ()), "Do this first")) == [expected]


def test_without_an_account_there_is_nothing_to_say() -> None:
    assert "Do this first" not in titles(reports.empty())


# ------------------------------------------------------------------------------------------------ hotspots


def test_hotspots() -> None:
    found = section(attributed.starved(), "Why the chips were idle")
    assert headers(tables(found)[0]) == [
        "idle (chip-ms)", "share %", "cause", "pieces", "caused by", "Python frame", "event (ms)", "on rank",
        "ts (µs)", "thread",
    ]  # fmt: skip
    rows = cells(tables(found)[0])[2:4]
    assert [row[:5] + row[6:9] for row in rows] == [
        ["118.0", "1.4", "host synchronisation", "48", "aten::item", "3.1", "5", "1365627862762064.125"],
        ["56.0", "0.7", "unexplained", "11", "no host event", "—", "2", "—"],
    ]
    assert cells(tables(found)[0])[-1][2:] == [
        "host_code", "4", "host code, before aten::mm", "—", "—", "6", "1365627862763064.125", "21719",
    ]  # fmt: skip


def test_many_hotspots_are_summed() -> None:
    base = attributed.starved()
    many = tuple(replace(base.hotspots[0], chip_ns=1_000_000 * i) for i in range(1, 14))
    found = section(replace(base, hotspots=many), "Why the chips were idle")
    assert [row[0] for row in cells(tables(found)[0])] == [f"{i}.00" for i in range(13, 3, -1)]
    assert lines(found)[-1] == "The JSON report lists 3 more places with 6.000 ms."
    assert "Why the chips were idle" not in titles(reports.single())


# ------------------------------------------------------------------------------------------- remarks, dashboard


def test_remarks() -> None:
    assert remarks.remarks(attributed.starved()) == {
        "input": "enumerate(DataLoader)#_M…DataLoaderIter.__next__",
        "launch_bound": "Optimizer.step#AdamW.step",
        "synchronisation": "aten::item",
        "unknown": "no host event",
        "host_code": "host code, before aten::mm",
        "communication_wait": "rank 3 last, 40 of 40 with a clear order",
        "communication": "reduce_scatter 12.0 % hidden",
    }
    assert remarks.remarks(reports.single()) == {}


def test_who_is_last_of_all_collectives() -> None:
    clear = tuple(one for one in attributed.starved().collectives if not one.near_tie)
    report = replace(attributed.starved(), collectives=clear)
    assert remarks.remarks(report)["communication_wait"] == "rank 3 last in 40 of 40"


def late(rank: int, *, wait: int = 5, near_tie: bool = False, transient: bool = False) -> Collective:
    waits = {"0": wait, str(rank): 0}
    return Collective(
        0, "x", None, None, "order", 1, waits, rank, wait, near_tie=near_tie, transient=transient
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], None),
        ([late(1)], (1, 1, 1)),
        ([late(1), late(2)], None),
        ([late(1), late(1), late(2)], (1, 2, 3)),
        ([late(1), late(2, near_tie=True), late(2, transient=True), late(2, wait=0)], (1, 1, 1)),
    ],
)
def test_arrivals(found: list[Collective], expected: tuple[int, int, int] | None) -> None:
    assert remarks.arrivals(found) == expected


def test_remarks_need_room_that_causes_and_bars_leave() -> None:
    columns = (Column("cause", "left", least=4), Column("remark", "left", least=6, spare=True))
    table = Table(columns, (Row(("c" * 10, "r" * 12), bar=1.0),), bars=True)
    widths = {width: layout.fit(table, width) for width in (40, 34, 28, 27)}
    assert {width: (fitted.widths, fitted.bar) for width, fitted in widths.items()} == {
        40: ((10, 12), 14),
        34: ((10, 12), 8),
        28: ((10, 6), 8),
        27: ((10,), 15),
    }


def test_dashboard() -> None:
    report = attributed.starved()
    assert facts(section(report, "What a dashboard")) == [
        ("GPU-Util", "99.3 %: a kernel was resident (nvidia-smi)"),
        (
            "only collectives",
            "24.1 % of the window: no other kernel was resident, be it waiting or moving data",
        ),
        ("SM activity", "61.2 %: blocks launched over the SMs there are, known for 98.0 % of kernel time"),
        ("occupancy", "— the trace does not estimate it"),
        ("RG", "61.4 %: a kernel computed"),
        ("MFU", "23.5 %: useful FLOPs of those possible at the peak"),
    ]
    verdict = dict(facts(build(report)[1]))
    shown = "nvidia-smi would show 99.3 % GPU-Util; for 24.1 % of the window only collectives ran"
    assert verdict["dashboard"] == shown
    assert "device busy" not in verdict
    idle = replace(report, dashboard=Dashboard(0.5, 0.0, None, None, 0.0, 0.0))
    assert [label for label, _ in facts(section(idle, "What a dashboard"))][:2] == ["GPU-Util", "SM activity"]
    assert dict(facts(section(idle, "What a dashboard")))["occupancy"] == "— not known"


# ------------------------------------------------------------------------------------------------ the page


@pytest.mark.parametrize("width", [80, 160])
def test_nothing_is_cropped_at_usual_widths(width: int) -> None:
    for report in (attributed.starved(), attributed.serving()):
        assert not [line for line in rendered.text(report, width).split("\n") if line.endswith("…")]


def test_what_to_do_first_starts_on_the_first_screen() -> None:
    shown = rendered.text(attributed.starved(), 120).split("\n")
    assert shown.index("Do this first") <= 30


def test_equal_labels_are_written_once() -> None:
    shown = rendered.text(attributed.starved(), 160).split("\n")
    assert sum(line.startswith("evidence") for line in shown) == 3
    assert f"          the longest [{attributed.LOADER} · ts 1365627862757064.125" in "\n".join(shown)
