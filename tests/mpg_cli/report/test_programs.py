"""What the sections say of the program layer."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from decimal import Decimal
from math import isfinite

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput.models import user_model
from mpg_cli.report import json, layout, markdown
from mpg_cli.report.blocks import Code, Facts, Line, Plot, Section, Table
from mpg_cli.report.model import Goodput, Ratio, Report, Unmodelled
from mpg_cli.report.sections import build
from tests.mpg_cli.report import programs, rendered, reports

LAYER = ("ideal", "memory_bound", "kernel_inefficiency", "recompute", "padding", "unmodelled")
AMOUNTS = st.dictionaries(
    st.sampled_from([*LAYER, "communication", "unknown"]), st.integers(1, 10**16), min_size=1
)


def section(report: Report, title: str, *, detail: bool = False) -> Section:
    return next(found for found in build(report, detail=detail) if found.title.startswith(title))


def titles(report: Report) -> list[str]:
    return [found.title for found in build(report)]


def facts(found: Section) -> dict[str, str]:
    return {label: text for block in found.blocks if isinstance(block, Facts) for label, text in block.items}


def verdict(report: Report) -> dict[str, str]:
    return facts(build(report)[1])


def table(found: Section) -> Table:
    return next(block for block in found.blocks if isinstance(block, Table))


def headers(block: Table) -> list[str]:
    return [column.header.split("\n")[0] for column in block.columns]


def column(block: Table, header: str) -> list[str]:
    return [row.cells[headers(block).index(header)] for row in block.rows]


def lines(found: Section) -> list[str]:
    return [block.text for block in found.blocks if isinstance(block, Line)]


def with_ratios(amounts: dict[str, int]) -> Report:
    """A report whose PG and MFU are those of its ledger."""
    base = reports.report(amounts, (), (), ())
    computing = sum(ns for cause, ns in amounts.items() if cause in LAYER)
    ideal, capacity = amounts.get("ideal", 0), sum(amounts.values())
    pg = Ratio(ideal / computing, ideal, computing, "bf16 peak", 1.0) if computing else None
    mfu = Ratio(ideal / capacity, ideal, capacity, "bf16 peak", 1.0)
    return replace(base, goodput=replace(base.goodput, pg=pg, mfu=mfu, hfu=mfu))


def test_verdict() -> None:
    assert verdict(programs.owlv2()) == {
        "RG 45.5 %": "0.551 of 1.211 chip-s computed · steps on the host clock",
        "PG 5.3 %": "of bf16 peak of H100 SXM · 0.029 of 0.551 chip-s computing",
        "MFU 2.4 %": "HFU 2.4 % — useful FLOPs / all FLOPs over the window",
        "SG, MPG —": "no scheduler log was given",
        "largest loss": "unexplained: 0.645 chip-s, 53.2 %",
        "top operator": "_softmax 16×5185×5185 bf16: 200.8 of 262.4 ms above its roofline",
        "device busy": "46.8 % on a utilisation dashboard: waiting and copying count",
        "trust": "A · models cover 100.0 % of computing · idle time is not explained · "
        "one profile of six steps · 1 warning, listed last",
    }


def test_first_screen() -> None:
    """Verdict and ledger of a usual report fit a small terminal, and what to do first comes next."""
    shown = rendered.text(programs.owlv2(), 80).split("\n")
    assert shown.index("Do this first") <= 25


def test_verdict_without_pg() -> None:
    found = verdict(programs.uncovered())
    assert found["PG —"].startswith("between 1.2 % and 73.2 %: models cover 27.8 % of computing time")
    assert not [label for label in found if label.startswith(("MFU", "HFU"))]
    assert found["top operator"] == "vllm::moe_forward: 6.078 ms, 69.7 % of computing, has no model"
    assert found["trust"].startswith("A · models cover 27.8 % of computing")


def test_a_graph_replay_is_no_operator_to_look_at() -> None:
    missing = (Unmodelled("no operator (graph replay)", 400, 10_000_000, 0.97),)
    assert "top operator" not in verdict(replace(programs.owlv2(), unmodelled=missing))


@pytest.mark.parametrize(
    ("mfu", "hfu", "label", "text"),
    [
        (0.235, 0.251, "MFU 23.5 %", "HFU 25.1 % — useful FLOPs / all FLOPs over the window"),
        (0.0037, 0.0044, "MFU 0.37 %", "HFU 0.44 % — useful FLOPs / all FLOPs over the window"),
        (0.235, None, "MFU 23.5 %", "useful FLOPs over the window"),
        (None, 0.251, "HFU 25.1 %", "all FLOPs over the window"),
    ],
)
def test_utilisation(mfu: float | None, hfu: float | None, label: str, text: str) -> None:
    ratios = [None if value is None else Ratio(value, 1, 7, "", 1.0) for value in (mfu, hfu)]
    goodput = Goodput(None, None, None, None, mfu=ratios[0], hfu=ratios[1])
    assert verdict(replace(programs.owlv2(), goodput=goodput))[label] == text


def test_most_time_without_a_model_is_said_beside_the_largest_loss() -> None:
    report = reports.report({"memory_bound": 2, "unmodelled": 97, "unknown": 1}, (), (), ())
    assert verdict(report)["largest loss"] == "memory-bound: 2 chip-ns, 2.0 %; 97.0 % has no model"


def test_ledger() -> None:
    block = table(section(programs.recomputed(), "Where"))
    assert headers(block) == ["cause", "chip-ms", "share %", "of computing %"]
    assert [(row.cells[0], row.cells[1], row.cells[3], row.hue) for row in block.rows] == [
        ("computing", "12.95", "100.0", "other"),
        ("  useful FLOPs at peak", "0.18", "1.4", "computing"),
        ("  kernel inefficiency", "10.36", "80.0", "program"),
        ("  recomputation", "2.05", "15.8", "program"),
        ("  memory-bound", "0.31", "2.4", "program"),
        ("  padding", "0.04", "0.4", "program"),
        ("  no model", "0.01", "0.0", "program"),
        ("not computing", "34.55", "", "other"),
        ("  communication, exposed", "32.16", "", "runtime"),
        ("  unexplained", "2.39", "", "runtime"),
        ("total", "47.50", "", "other"),
    ]


@pytest.mark.parametrize(
    ("basis", "label"),
    [
        ("bf16 peak of H100 SXM", "  useful FLOPs at peak"),
        ("bf16 roofline of H100 SXM", "  useful work at the roofline"),
        ("bf16 achievable of H100 SXM", "  useful FLOPs at achievable rate"),
        ("", "  ideal"),
    ],
)
def test_the_ideal_row_says_at_what(basis: str, label: str) -> None:
    base = programs.owlv2()
    assert base.goodput.pg is not None
    goodput = replace(base.goodput, pg=replace(base.goodput.pg, basis=basis))
    assert table(section(replace(base, goodput=goodput), "Where")).rows[1].cells[0] == label


def test_without_a_program_layer_computing_is_one_row() -> None:
    base = reports.single()
    block = table(section(base, "Where"))
    assert headers(block) == ["cause", "chip-s", "share %"]
    assert block.rows[0].cells[0] == "computing"


def test_the_origin_is_shown_where_the_trace_is_not_all_there_is() -> None:
    base = reports.single()
    ledger = (*base.ledger[:-1], replace(base.ledger[-1], origin="extrapolated"))
    block = table(section(replace(base, ledger=ledger), "Where"))
    assert headers(block) == ["cause", "chip-s", "share %", "origin"]
    assert [row.cells[3] for row in block.rows if row.bar is not None] == [
        "observed", "extrapolated", "observed",
    ]  # fmt: skip


@settings(deadline=None)
@given(AMOUNTS)
def test_program_rows_add_up_and_are_the_ratios(amounts: dict[str, int]) -> None:
    report = with_ratios(amounts)
    block = table(section(report, "Where"))
    inside = [row for row in block.rows if row.hue in ("computing", "program") and row.bar is not None]
    if len(inside) < 2:
        return
    assert headers(block)[3] == "of computing %"
    group = block.rows[0]
    for i in (1, 2, 3):
        numbers = [Decimal(row.cells[i].replace(",", "")) for row in inside]
        assert sum(numbers) == Decimal(group.cells[i].replace(",", ""))
    assert group.cells[3] == "100.0"
    if "ideal" in amounts:
        found = verdict(report)
        assert f"PG {inside[0].cells[3]} %" in found
        assert f"MFU {inside[0].cells[2]} %" in found


OPERATORS = """
200.8  47.6  262.4  120      —    787  23.5  memory   _softmax 16×5185×5185 bf16
 98.4  23.6  130.0  120   50.8    814  24.3  memory   bmm 16×5185×64 · 16×64×5185 bf16
 67.7  18.0   99.3  120   66.5  1,065  31.8  memory   bmm 16×5185×5185 · 16×5185×64 bf16
  4.8   1.8   10.0  480  520.1  1,116  52.6  compute  addmm 5185×1024 · 1024×1024 bf16
"""


def test_operators() -> None:
    found = section(programs.owlv2(), "Operators")
    names = ["recover", "share", "time", "count", "TFLOP/s", "GB/s", "roof", "bound"]
    assert headers(table(found)) == [*names, "operator, aten:: not written"]
    expected = [re.split(r"\s{2,}", line.strip()) for line in OPERATORS.strip().split("\n")]
    assert [list(row.cells) for row in table(found).rows[:4]] == expected
    assert lines(found) == [
        "Recoverable: time above the chip's roofline (989 TFLOP/s bf16, 3,350 GB/s):",
        "2 more (1.605 ms); --detail lists 30 and on a terminal draws the roofline",
    ]


def test_operators_come_by_recoverable_time_and_are_cut() -> None:
    report = replace(programs.recomputed(), ops=programs.recomputed().ops[::-1])
    short, long = (table(section(report, "Operators", detail=detail)) for detail in (False, True))
    assert (len(short.rows), len(long.rows)) == (10, 30)
    times = [Decimal(cell) for cell in column(long, "recover")]
    assert times == sorted(times, reverse=True)
    assert lines(section(report, "Operators", detail=True))[-1].endswith("170 more (1.434 ms)")


def test_operators_mark_what_is_not_from_shapes_and_what_is_recomputed() -> None:
    found = section(programs.recomputed(), "Operators")
    assert column(table(found), "")[:4] == ["", "~", "=", ""]
    assert column(table(found), "recompute")[:4] == ["—", "130.0", "—", "65.0"]
    assert "~ inferred from neighbouring kernels; = FLOPs declared in mpg.toml" in lines(found)[1]
    assert "recompute" not in headers(table(section(programs.owlv2(), "Operators")))


@pytest.mark.parametrize(("width", "gone"), [(80, ["count", "TFLOP/s", "GB/s"]), (100, []), (160, [])])
def test_narrow_terminals_lose_the_least_columns(width: int, gone: list[str]) -> None:
    whole = table(section(programs.owlv2(), "Operators"))
    fitted = layout.fit(whole, width).table
    assert [header for header in headers(whole) if header not in headers(fitted)] == gone


def test_operators_without_a_roofline_are_last_and_count_for_nothing() -> None:
    found = section(programs.no_bandwidth(), "Operators")
    assert [row.cells[:1] + row.cells[5:8] for row in table(found).rows] == [
        ("5.24", "63", "59.0", "compute"),
        ("—", "511", "—", "—"),
        ("—", "—", "—", "—"),
    ]
    assert lines(found) == ["Recoverable: time above the chip's peak (15.7 TFLOP/s fp32; bandwidth unknown):"]


def test_what_is_left_out_is_summed() -> None:
    report = replace(programs.owlv2(), ops=programs.owlv2().ops[:11] + programs.no_bandwidth().ops[::2])
    note = lines(section(report, "Operators"))[-1]
    assert note.startswith("1 more (945.5 µs), 2 of unknown roofline (9.657 ms in all); --detail lists 30")


def test_plot_only_in_detail() -> None:
    report = programs.owlv2()
    assert not [block for block in section(report, "Operators").blocks if isinstance(block, Plot)]
    found = section(report, "Operators", detail=True)
    plot = next(block for block in found.blocks if isinstance(block, Plot))
    assert plot.title == "Roofline of H100 SXM: 989 TFLOP/s bf16, 3,350 GB/s; letters as in the table"
    assert round(plot.ridge, 1) == 295.3
    assert [point.letter for point in plot.points] == list("abcdefg")
    assert column(table(found), "")[:6] == ["", "a", "b", "c", "", "d"]


@pytest.mark.parametrize("why", ["no bandwidth", "two chips", "no chip", "no matrix operator"])
def test_no_plot(why: str) -> None:
    base = programs.owlv2()
    report = {
        "no bandwidth": replace(base, rooflines=(replace(programs.H100, bandwidth_gbps=None),)),
        "two chips": replace(base, rooflines=(programs.H100, programs.B200)),
        "no chip": replace(base, rooflines=()),
        "no matrix operator": replace(base, ops=base.ops[:1]),
    }[why]
    found = section(report, "Operators", detail=True)
    assert not [block for block in found.blocks if isinstance(block, Plot)]
    assert "" not in headers(table(found))
    assert "roofline" not in "".join(lines(section(report, "Operators"))[1:])


def test_plot_is_for_terminals() -> None:
    report = programs.owlv2()
    assert "FLOP/byte" in rendered.text(report, 60, detail=True)
    assert "Roofline of" not in rendered.text(report, 59, detail=True)
    assert "Roofline of" not in markdown.render(report, detail=True)


def test_operators_without_a_model() -> None:
    found = section(programs.uncovered(), "Operators without")
    assert found.title == "Operators without a model: 72.4 % of computing"
    assert [row.cells for row in table(found).rows[:2]] == [
        ("6.078", "69.7", "252", "vllm::moe_forward"),
        ("0.213", "2.4", "18", "vllm::unified_attention_with_output"),
    ]
    assert len(table(found).rows) == 5
    assert lines(found)[0] == "2 more operators with 0.1 % of computing."
    assert len(table(section(programs.uncovered(), "Operators without", detail=True)).rows) == 7


def test_the_lines_for_mpg_toml_are_a_model() -> None:
    code = next(
        block
        for block in section(programs.uncovered(), "Operators without").blocks
        if isinstance(block, Code)
    )
    (spec,) = tomllib.loads("\n".join(code.lines))["model"]
    assert user_model(spec).op == "vllm::moe_forward"
    for text in (rendered.text(programs.uncovered(), 80), markdown.render(programs.uncovered())):
        shown = re.search(r"^\[\[model\]\]\n.*\n.*\n.*$", text, re.MULTILINE)
        assert shown
        assert tomllib.loads(shown[0])["model"] == [spec]


@pytest.mark.parametrize(
    "name",
    [
        "aten::mm",
        "no operator (graph replay)",
        'a::b"\n[x]\n',
        "a::b`",
        "a::b c",
        "::b",
        "a::ü",
        "x" * 99 + "::b",
    ],
)
def test_no_lines_for_what_is_no_custom_operator(name: str) -> None:
    found = section(
        replace(programs.uncovered(), unmodelled=(Unmodelled(name, 1, 9, 0.9),)), "Operators without"
    )
    assert not [block for block in found.blocks if isinstance(block, Code)]


@pytest.mark.parametrize("share", [0.0, 0.01, float("nan")])
def test_little_without_a_model_is_not_listed(share: float) -> None:
    report = replace(programs.owlv2(), unmodelled=(Unmodelled("a::b", 1, 9, share),))
    assert not [title for title in titles(report) if title.startswith("Operators without")]


def test_operators_above_the_peak_are_pointed_out() -> None:
    text = "Operators that would have run above the peak are among them: see the warnings."
    assert text in lines(section(programs.no_bandwidth(), "Operators without"))
    assert text not in lines(section(programs.uncovered(), "Operators without"))


@pytest.mark.parametrize(
    ("covered", "linked", "reasons", "expected"),
    [
        (0.9994, 0.6886, {}, "FLOP models cover 99.9 % of computing time (68.9 % by a launch in the file, "),
        (0.99, 0.99, {}, "FLOP models cover 99.0 % of computing time, all by a launch in the file"),
        (0.99, None, {}, "FLOP models cover 99.0 % of computing time"),
        (None, None, {"pg": "the chip is not known"}, "— the chip is not known"),
        (None, None, {}, "— operand shapes were not looked at"),
    ],
)
def test_coverage(
    covered: float | None, linked: float | None, reasons: dict[str, str], expected: str
) -> None:
    base = programs.owlv2()
    quality = replace(base.quality, shape_coverage=covered, linked_coverage=linked)
    report = replace(base, quality=quality, goodput=Goodput(None, None, None, None, reasons=reasons))
    rest = "the rest matched by neighbouring kernels)" if expected.endswith(", ") else ""
    assert facts(section(report, "How far"))["models"] == expected + rest


def test_nothing_judged() -> None:
    found = titles(reports.single())
    assert not [title for title in found if title.startswith("Operators")]


def test_json_has_whole_and_finite_numbers() -> None:
    loaded = orjson.loads(json.render(programs.owlv2()))
    assert len(loaded["ops"]) == 12
    for op in loaded["ops"]:
        assert {
            type(op[name]) for name in ("count", "kernels", "time_ns", "flops", "bytes", "recoverable_ns")
        } == {int}
        assert all(isfinite(value) for value in op.values() if isinstance(value, float))
    assert loaded["rooflines"] == [
        {
            "chip": "H100 SXM",
            "dtype": "bf16",
            "peak_tflops": 989.4,
            "bandwidth_gbps": 3350.0,
            "peak_source": "",
            "bandwidth_source": "",
        }
    ]
    assert orjson.loads(json.render(programs.no_bandwidth()))["ops"][2]["bytes"] is None
