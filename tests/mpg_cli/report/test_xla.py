"""What XLA's own tools show, as a section."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest
from rich.cells import cell_len

from mpg_cli.report import json, markdown
from mpg_cli.report.model import Xla
from mpg_cli.report.schema import json_schema
from tests.mpg_cli.report import hostile, rendered, reports, xla
from tests.mpg_cli.report.parts import cells, facts, headers, lines, section, tables, titles
from tests.mpg_cli.report.test_renderers import CONTROL, unquoted
from tests.mpg_cli.report.test_schema import problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpg_cli.report.model import Report

TITLE = "What XLA's own tools show of the whole profile"
ALL = (xla.tpu, xla.gpu, xla.zeros, lambda: xla.named(*hostile.NAMES))
EMPTY = Xla(0, None, None, 0, 0.0, 0, 0.0, 0, 0, (), (), (), (), ())


def test_both_definitions_of_idle_and_why_they_differ() -> None:
    found = facts(section(xla.tpu(), TITLE))
    first = "20.0 % from the first to the last operation of each core: what xprof's overview calls idle"
    assert found[0] == ("idle", f"{first} · 500.0 ms of 2.500 s")
    assert found[1:3] == [
        ("idle, profile", "50.0 % of the time the profiler was on · 2.000 s of 4.000 s"),
        ("difference", "the first leaves out what lies before the first operation and after the last"),
    ]
    assert found[3][0] == "RG"
    assert found[3][1].startswith("counts otherwise: over the window above; waiting for copies")


def test_parts_of_the_time() -> None:
    assert facts(section(xla.tpu(), TITLE))[4:] == [
        ("opaque", "30.0 % of self time, 600.0 ms, in custom calls whose work XLA does not know"),
        ("recompute", "15.0 % of self time, 300.0 ms, repeats the forward pass (rematerialisation)"),
        ("infeed", "1.0 % of self time, 20.00 ms, takes input from the host, waiting included"),
    ]


def test_a_definition_that_is_not_known_has_its_reason() -> None:
    found = replace(xla.FOUND, idle_in_profile=None, reasons={"idle_in_profile": "not stated"})
    shown = dict(facts(section(replace(xla.tpu(), xla=found), TITLE)))
    assert shown["idle, profile"] == "— not stated"
    assert "difference" not in shown


def test_operations() -> None:
    table = tables(section(xla.tpu(), TITLE))[0]
    assert headers(table) == [
        "time (ms)", "share %", "count", "TFLOP/s", "GB/s", "", "category", "source", "from", "program", "operation",
    ]  # fmt: skip
    rows = cells(table)
    assert len(rows) == 10
    assert rows[0][:7] == ["900.0", "45.0", "100", "431.2", "812", "", "convolution fusion"]
    assert rows[1][:7] == ["600.0", "30.0", "100", "—", "—", "opaque", "custom-call"]
    assert rows[2][5] == "recompute"
    assert rows[3][7:] == ["—", "—", "jit_train_step", "copy-done.4"]
    assert "990 more rows." in lines(section(xla.tpu(), TITLE))


def test_the_other_tables() -> None:
    _, categories, opaque, programs, beside = map(cells, tables(section(xla.tpu(), TITLE)))
    assert categories[0] == ["1.200", "60.0", "200", "convolution fusion"]
    assert [len(opaque), opaque[0][3]] == [3, "jit(train_step)/attention_0/pallas_call"]
    assert programs == [
        ["1.997", "99.9", "100", "2.010", "13.00", "12190760917235803885", "jit_train_step"],
        ["0.003", "0.1", "1", "0.004", "0.50", "7", "jit_init"],
    ]
    assert beside == [["400.0", "70.0", "120.0", "100", "jit_train_step", "copy-start.4"]]


def test_detail_lists_more() -> None:
    found = tables(section(xla.tpu(), TITLE, detail=True))
    assert [len(table.rows) for table in found[:3]] == [14, 4, 5]


def test_without_runs_there_are_no_columns_of_runs() -> None:
    found = section(xla.gpu(), TITLE)
    assert facts(found) == []
    assert headers(tables(found)[-1]) == ["operations (s)", "share %", "id", "program"]
    assert (
        lines(found)[-1] == "By program, self time of its operations; the file records no runs of programs:"
    )


@pytest.mark.parametrize("found", [None, EMPTY])
def test_without_operations_there_is_no_section(found: Xla | None) -> None:
    assert TITLE not in titles(replace(reports.single(), xla=found))


def test_a_report_without_xla_changes_by_one_null() -> None:
    text = json.render(reports.single()).decode()
    assert text.count('\n  "xla": null,\n') == 1


@pytest.mark.parametrize("made", ALL)
@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("detail", [False, True])
def test_lines_keep_the_width(made: Callable[[], Report], width: int, detail: bool) -> None:
    text = rendered.text(made(), width, detail=detail)
    assert max(cell_len(line) for line in text.split("\n")) <= width
    assert max(cell_len(line) for line in rendered.ascii_bytes(made(), width).decode().split("\n")) <= width


@pytest.mark.parametrize("made", ALL)
def test_reports_conform(made: Callable[[], Report]) -> None:
    schema = json_schema()
    assert problems(orjson.loads(json.render(made())), schema, schema["$defs"]) == []


def test_hostile_names_do_nothing() -> None:
    report = xla.named(*hostile.NAMES)
    assert not CONTROL.search(rendered.text(report, 160, detail=True))
    text = markdown.render(report, detail=True)
    assert not CONTROL.search(text)
    assert not re.search(r"[<>`\[\]@$]|://|www\.", unquoted(text))


def test_nothing_is_cropped_at_usual_widths() -> None:
    for width in (80, 160):
        assert not [line for line in rendered.text(xla.tpu(), width).split("\n") if line.endswith("…")]


@pytest.mark.parametrize("width", [80, 160])
def test_golden_terminal(width: int, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/xla.{width}.txt", rendered.text(xla.tpu(), width).encode())


def test_golden_markdown(golden: Callable[[str, bytes], None]) -> None:
    golden("report/xla.md", markdown.render(xla.tpu()).encode())
