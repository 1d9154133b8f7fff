"""Fleets in every format, with hostile names, and the command to copy."""

from __future__ import annotations

import json as standard
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from rich.cells import cell_len

from mpg_cli.report import json, markdown
from mpg_cli.report.blocks import Code
from mpg_cli.report.schema import json_schema
from mpg_cli.report.sections.scheduling import closing
from tests.mpg_cli.report import fleets, hostile, rendered
from tests.mpg_cli.report.parts import section, titles
from tests.mpg_cli.report.test_renderers import CONTROL, TEXT, unquoted
from tests.mpg_cli.report.test_schema import problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpg_cli.report.model import Report

NEXT = "To know more next time"
GOOD = (fleets.slurm, fleets.no_capacity, fleets.mixed, fleets.year)
ALL = (*GOOD, fleets.zeros, lambda: fleets.named(*hostile.NAMES))


# ---------------------------------------------------------------------------------------------- next time


def arguments(command: str) -> list[str]:
    """What a shell makes of it."""
    script = f"set -- {command}\nprintf '%s\\n' \"$@\""
    shell = ["/bin/sh", "-c", script]
    return subprocess.run(shell, check=True, capture_output=True, text=True).stdout.split("\n")


def test_the_next_command_can_be_copied() -> None:
    code = next(block for block in section(fleets.slurm(), NEXT).blocks if isinstance(block, Code))
    assert len(code.lines) == 3
    assert max(map(len, code.lines)) <= 78
    copied = "\n".join(code.lines).replace(" > ", " ")
    assert arguments(copied) == arguments(fleets.SACCT.replace(" > ", " "))
    assert "```sh\nTZ=UTC SLURM_TIME_FORMAT=%s sacct" in markdown.render(fleets.slurm())


@pytest.mark.parametrize(
    "command",
    [
        "sacct -o " + ",".join(f"Column{i}" for i in range(40)),
        "kubectl get pods -o jsonpath='{.items[*], a, b}' --all-namespaces " + "-l a=b " * 20,
        'sacct --format="a, b, c" ' + "x" * 200 + " --end",
    ],
)
def test_folding_changes_nothing_for_a_shell(command: str) -> None:
    folded = closing.fold(command, 40)
    assert len(folded) > 1
    assert arguments("\n".join(folded)) == arguments(command)


@pytest.mark.parametrize(
    "wanted", ["sacct -a\n```\n# title", "ask `sacct`", "rm -rf /", "sacct \x1b[2J", "sacct é"]
)
def test_what_is_no_plain_command_is_text(wanted: str) -> None:
    report = fleets.changed(next_command=wanted)
    assert not any(isinstance(block, Code) for block in section(report, NEXT).blocks)
    assert "```sh" not in markdown.render(report)


def test_nothing_missing_nothing_said() -> None:
    assert NEXT not in titles(fleets.changed(next_command=" "))


# ---------------------------------------------------------------------------------------------- renderers


@pytest.mark.parametrize("made", ALL)
@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("detail", [False, True])
def test_lines_keep_the_width(made: Callable[[], Report], width: int, detail: bool) -> None:
    text = rendered.text(made(), width, detail=detail)
    assert max(cell_len(line) for line in text.split("\n")) <= width
    assert max(cell_len(line) for line in rendered.ascii_bytes(made(), width).decode().split("\n")) <= width


@pytest.mark.parametrize("made", [made for made in ALL if made is not fleets.zeros])
def test_reports_conform(made: Callable[[], Report]) -> None:
    schema = json_schema()
    assert problems(standard.loads(json.render(made())), schema, schema["$defs"]) == []


@pytest.mark.parametrize("made", GOOD)
@pytest.mark.parametrize("width", [80, 160])
def test_nothing_is_cropped_at_usual_widths(made: Callable[[], Report], width: int) -> None:
    assert not [line for line in rendered.text(made(), width).split("\n") if line.endswith("…")]


def test_hostile_names_do_nothing() -> None:
    report = fleets.named(*hostile.NAMES)
    assert not CONTROL.search(rendered.text(report, 160, detail=True))
    text = markdown.render(report, detail=True)
    assert not CONTROL.search(text)
    assert not re.search(r"[<>`\[\]@$]|://|www\.", unquoted(text))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXT, TEXT)
def test_any_name_renders(one: str, other: str) -> None:
    report = fleets.named(one, other)
    text = rendered.text(report, 80) + rendered.ascii_bytes(report, 80).decode("ascii")
    assert max(cell_len(line) for line in text.split("\n")) <= 80
    assert not any(CONTROL.search(line) for line in text.split("\n"))
    assert not re.search(r"[<>`\[\]@$]|://|www\.", unquoted(markdown.render(report)))


def test_a_year_of_a_large_fleet_is_exact() -> None:
    report = fleets.year()
    assert report.totals.capacity_ns == 10_000 * 8_760 * fleets.H > 1 << 64
    text = json.render(report).decode()
    assert f'"capacity_ns": {report.totals.capacity_ns},' in text
    assert "· 365 d · 87,600,000 chip-h in all\n" in rendered.text(report, 160)


def test_times_of_day_are_no_emoji() -> None:
    assert "window: 2026-11-29T14:00:00Z to 2026-11-29T15:00:00Z" in markdown.render(fleets.slurm())
    assert markdown.inline("at 14:00:30") == "at 14:00:30"
    assert markdown.inline(":100:") == "`:100:`"


@pytest.mark.parametrize("name", ["slurm", "no_capacity"])
@pytest.mark.parametrize("width", [80, 160])
def test_golden_terminal(name: str, width: int, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.{width}.txt", rendered.text(getattr(fleets, name)(), width).encode())


@pytest.mark.parametrize("name", ["slurm", "mixed"])
def test_golden_markdown(name: str, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.md", markdown.render(getattr(fleets, name)()).encode())


def test_golden_ascii(golden: Callable[[str, bytes], None]) -> None:
    golden("report/slurm.80.ascii.txt", rendered.ascii_bytes(fleets.slurm(), 80))


def test_golden_json(golden: Callable[[str, bytes], None]) -> None:
    golden("report/slurm.json", json.render(fleets.slurm()))


def test_golden_detail(golden: Callable[[str, bytes], None]) -> None:
    golden("report/slurm.160.detail.txt", rendered.text(fleets.slurm(), 160, detail=True).encode())
