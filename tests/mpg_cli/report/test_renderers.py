from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from mpg_cli.report import json, markdown
from tests.mpg_cli.report import hostile, rendered, reports, samples

TEXT = st.text(st.characters(), max_size=80)
CODE_SPAN = re.compile(r"`[^`\n]*`")
FENCE = re.compile(r"^```toml\n\[\[model\]\]\nop = \"[\w:.]+\"\n.*\n.*\n```$", re.MULTILINE | re.ASCII)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def unquoted(text: str) -> str:
    """What Markdown would act on: all but code spans, and the lines for mpg.toml."""
    return CODE_SPAN.sub("", FENCE.sub("", text))


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_lines_keep_the_width(name: str, width: int) -> None:
    report = samples.ALL[name]()
    lines = [
        *rendered.text(report, width).split("\n"),
        *rendered.ascii_bytes(report, width).decode().split("\n"),
    ]
    assert max(cell_len(line) for line in lines) <= width


@pytest.mark.parametrize("name", ["single", "two_ranks", "no_steps", "fleet"])
@pytest.mark.parametrize("width", [80, 160])
def test_nothing_is_cropped_at_usual_widths(name: str, width: int) -> None:
    assert not [line for line in rendered.text(samples.ALL[name](), width).split("\n") if line.endswith("…")]


def test_color_adds_only_styles() -> None:
    report = hostile.hostile()
    colored = rendered.text(report, 120, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == rendered.text(report, 120)


def test_only_labels_are_bold() -> None:
    first = rendered.text(reports.single(), 80, color=True).split("\n")[4]
    assert first.startswith("\x1b[1mRG 54.9 %\x1b[0m  ")
    assert first.count("\x1b") == 2


def test_environment_does_not_override_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in rendered.text(reports.single(), 80)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" in rendered.text(reports.single(), 80, color=True)


def test_without_a_width_a_pipe_has_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert rendered.text(reports.fleet(), None) == rendered.text(reports.fleet(), 80)


def test_hostile_names_reach_no_terminal() -> None:
    text = rendered.text(hostile.hostile(), 160)
    assert not CONTROL.search(text)
    assert "[bold red]x[/]" in text


def test_hostile_names_do_nothing_in_markdown() -> None:
    text = markdown.render(hostile.hostile())
    assert not CONTROL.search(text)
    outside = unquoted(text)
    assert not re.search(r"[<>`\[\]@$]|://|www\.", outside)
    assert "#" not in re.sub(r"^### ", "", outside, flags=re.MULTILINE)


@pytest.mark.parametrize("name", samples.ALL)
def test_markdown_tables_are_whole(name: str) -> None:
    lines = markdown.render(samples.ALL[name]()).split("\n")
    for before, line in pairwise(lines):
        if before.startswith("|") and line.startswith("|"):
            assert cells(before) == cells(line)
            assert cell_len(before) == cell_len(line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rank 3, step 12", "rank 3, step 12"),
        ("steps 12–17 (6)", "steps 12–17 (6)"),
        ("a_b", "`a_b`"),
        ("a|b", r"`a\|b`"),
        (r"a\|b", r"`a\x5c\|b`"),
        ("a\\", r"`a\x5c`"),
        ("a`b``", r"`a\x60b\x60\x60`"),
        ("<b>", "`<b>`"),
        ("see http://x.example", "`see http://x.example`"),
        ("WWW.x.example", "`WWW.x.example`"),
        (":tada:", "`:tada:`"),
        ("1. x", "`1. x`"),
        ("", ""),
        (" ", " "),
    ],
)
def test_inline(text: str, expected: str) -> None:
    assert markdown.inline(text) == expected


def test_names_in_markdown_are_short() -> None:
    report = replace(reports.single(), kernels=(reports.kernel("x" * 4_000, "compute", "gemm", 1, 1, 1.0),))
    assert max(len(run) for run in re.findall(r"x+…x+", markdown.render(report))) == 120


def test_json_keeps_names_whole_and_survives_surrogates() -> None:
    loaded = orjson.loads(json.render(hostile.hostile()))
    assert loaded["kernels"][7]["name"] == "x" * 5_000
    assert r"\ud800" in loaded["kernels"][0]["name"]
    assert "\x1b" not in json.render(hostile.hostile()).decode()


def test_json_form() -> None:
    text = json.render(reports.two_ranks()).decode()
    assert text.startswith('{\n  "sources": [\n    {\n      "path": "dlrm/')
    assert text.endswith("}\n")
    assert list(orjson.loads(text))[-2:] == ["schema", "mpg_version"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXT, TEXT, st.integers(30, 200))
@example("", "A::0", 80)
@example("\u1160" * 60, "\u0e33\U0001f1e6\U0001f1e7\U0001f468\u200d\U0001f469\ufe0f", 80)
def test_any_name_renders(one: str, other: str, width: int) -> None:
    report = hostile.named(one, other)
    lines = rendered.text(report, width).split("\n")
    lines += rendered.ascii_bytes(report, width).decode("ascii").split("\n")
    assert max(cell_len(line) for line in lines) <= width
    assert not any(CONTROL.search(line) for line in lines)
    text = markdown.render(report)
    assert not CONTROL.search(text)
    assert not re.search(r"[<>`\[\]@$]|://|www\.", unquoted(text))
    assert orjson.loads(json.render(report))["ledger"][0]["chip_ns"] == 10


def test_chip_time_of_more_than_64_bits_is_written_exactly_and_in_the_same_form() -> None:
    """10,000 chips for a year are 3.2e20 chip-ns."""
    year = 10_000 * 365 * 86_400 * 10**9
    base = reports.two_ranks()
    large = replace(base, totals=replace(base.totals, capacity_ns=year, chip_seconds=float("nan")))
    text = json.render(large).decode()
    assert f'"capacity_ns": {year},' in text
    small = replace(base, totals=replace(base.totals, chip_seconds=float("nan")))
    assert text.replace(str(year), str(base.totals.capacity_ns)) == json.render(small).decode()


def test_large_integers_beside_lone_surrogates() -> None:
    base = hostile.hostile()
    text = json.render(replace(base, totals=replace(base.totals, capacity_ns=1 << 80))).decode()
    assert str(1 << 80) in text
    assert r"\\ud800" in text
