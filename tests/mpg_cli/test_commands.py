"""What the commands do, apart from options and rendering."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mpg_cli import commands
from mpg_cli.config import Settings
from mpg_cli.goodput.quality import WARNING_GRADES
from mpg_cli.messages import printable
from mpg_cli.progress import progress_on
from mpg_cli.report.model import Price
from mpg_parsers.errors import InputError, UsageError
from tests.mpg_cli.running import kernel, mpg, trace

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Settings(cache_enabled=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rank1.json"
    path.write_text(trace(kernel(0, 10)))
    return path


def test_analyze_gives_the_report_and_writes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = commands.analyze([str(file)], PLAIN, strict=False, quiet=False)
    assert [source.rank for source in report.sources] == [1]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("window", "all"),
        ("view", "fleet-paper"),
        ("step_regex", "x"),
        ("per_step", True),
        ("by", ("op", "rank")),
    ],
)
def test_settings_reach_the_analysis(file: Path, field: str, value: str) -> None:
    options = commands._options(Settings(**{field: value}))
    assert getattr(options, field) == value
    assert commands.analyze(
        [str(file)], Settings(cache_enabled=False, **{field: value}), strict=False, quiet=True
    )


@pytest.mark.parametrize(
    ("given", "price"),
    [
        ({}, None),
        ({"job_chips": 8}, None),
        ({"price": 2.5}, Price(2.5, None)),
        ({"price": 2.5, "job_chips": 8}, Price(2.5, 8)),
    ],
)
def test_the_price_reaches_the_analysis(given: dict[str, Any], price: Price | None) -> None:
    assert commands._options(Settings(**given)).price == price


def test_idle_rules_of_the_user_come_first() -> None:
    rule = {"id": "loader", "cause": "input", "pattern": "^acme"}
    options = commands._options(Settings(idle_rules=(rule,)))
    assert options.idle_rules
    assert options.idle_rules.ranges[0].id == "loader"
    with pytest.raises(UsageError, match="cause 'inptu' is none of"):
        commands._options(Settings(idle_rules=(rule | {"cause": "inptu"},)))


def test_strict_names_the_file_and_the_kind(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "a.json").write_text(trace(kernel(0, 10)))
    with pytest.raises(InputError, match=r"notes\.txt: ") as caught:
        commands.analyze([str(tmp_path)], PLAIN, strict=True, quiet=True)
    assert caught.value.kind == "skipped_files"


def test_every_warning_that_means_lost_data_lowers_the_grade_and_is_strict() -> None:
    told_but_no_loss = {"no_steps", "graph_level_trace"}
    assert set(WARNING_GRADES) - told_but_no_loss <= set(commands.STRICT)


def test_ingest_tells_what_it_found_unless_quiet(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "notes.txt").write_text("hello")
    (folder / "a.json").write_text(trace(kernel(0, 10)))
    loud, quiet = (
        mpg("ingest", folder, "-o", tmp_path / name, *flag) for name, flag in (("a", []), ("b", ["-q"]))
    )
    assert loud.err.splitlines()[0].startswith(f"warning[skipped_files]: {folder}/notes.txt: ")
    assert loud.err.splitlines()[-1] == f"Wrote {tmp_path}/a (1 source)"
    assert quiet.err == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("µ 名前", "µ 名前"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\udcff", r"\udcff"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected
    printable(text).encode()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("terminal", "quiet"), [(False, False), (False, True), (True, True)])
def test_no_progress_off_a_terminal_or_when_quiet(
    terminal: bool, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    with progress_on(quiet=quiet) as progress:
        assert progress is None
    assert err.getvalue() == ""


@pytest.mark.parametrize("columns", ["80", "²"])
def test_progress_on_a_terminal_is_gone_in_the_end(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", columns)
    err: Any = sys.stderr
    with progress_on(quiet=False) as progress:
        assert progress
        progress("dir/[bold]na\x1b[31mme.json", 10, 100)
        progress("dir/[bold]na\x1b[31mme.json", 500, 100)
    assert "[bold]na?[31mme.json" in err.getvalue()
    assert err.getvalue().rstrip().endswith("\x1b[2K")
