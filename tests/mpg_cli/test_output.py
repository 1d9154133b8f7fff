"""Where a report goes, in which format, and what is never overwritten."""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mpg_cli import commands
from mpg_cli.config import Settings
from tests.mpg_cli.running import Result, mpg, trace

if TYPE_CHECKING:
    from mpg_cli.report.model import Report


@cache
def report() -> Report:
    """The report that every analysis in these tests gives."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(trace())
        return commands.analyze([str(path)], Settings(cache_enabled=False), strict=False, quiet=True)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = report()
    monkeypatch.setattr(commands, "analyze", lambda *_, **__: found)
    for variable in ("NO_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "trace.json"
    path.write_text(trace())
    return path


def analyze(*arguments: object, **options: Any) -> Result:
    return mpg("analyze", "--no-cache", *arguments, **options)


class Terminal(io.TextIOWrapper):
    """A standard output that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation


def on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: object, encoding: str = "utf-8") -> str:
    """What a command writes to a terminal."""
    from mpg_cli.__main__ import main

    out = Terminal(encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main([str(argument) for argument in ("analyze", "--no-cache", *arguments)]) == 0
    out.flush()
    return out.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined,no-any-return]


def looks_like(text: str) -> str:
    return "json" if text.startswith("{") else "md" if text.startswith("**") else "rich"


# ------------------------------------------------------------------------------------------------ formats


def test_markdown_when_piped_and_rich_on_a_terminal(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks_like(analyze(file).out) == "md"
    assert looks_like(on_terminal(monkeypatch, file)) == "rich"
    assert looks_like(on_terminal(monkeypatch, file, "-f", "md")) == "md"


@pytest.mark.parametrize("name", ["rich", "md", "json"])
def test_format(file: Path, name: str) -> None:
    assert looks_like(analyze(file, "--format", name).out) == name


@pytest.mark.parametrize(
    ("name", "kind"),
    [("r.md", "md"), ("r.markdown", "md"), ("r.json", "json"), ("r.txt", "rich"), ("R.JSON", "json")],
)
def test_the_suffix_chooses(file: Path, tmp_path: Path, name: str, kind: str) -> None:
    found = analyze(file, "-o", tmp_path / name)
    assert (found.status, found.out, found.err) == (0, "", f"Wrote {tmp_path / name}\n")
    assert looks_like((tmp_path / name).read_text()) == kind


def test_format_goes_before_the_suffix(file: Path, tmp_path: Path) -> None:
    assert analyze(file, "-q", "-f", "json", "-o", tmp_path / "report").err == ""
    assert looks_like((tmp_path / "report").read_text()) == "json"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "jsno"], "--format: 'jsno' is none of rich, md, json; did you mean 'json'?"),
        (["--color", "alwyas"], "--color: 'alwyas' is none of auto, always, never; did you mean 'always'?"),
        (["-o", "report"], "-o report: the suffix names no format"),
        (["-o", "report.pdf"], "-o report.pdf: the suffix names no format"),
        (["-o", "nowhere/report.md"], "-o nowhere/report.md: there is no folder nowhere"),
        (["-o", "."], ". is a folder"),
        (["-o", ".", "--force"], ". is a folder"),
    ],
)
def test_refused_before_any_work(
    tmp_path: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = analyze("nowhere.json", *arguments)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"error[usage]: {words}")


# -------------------------------------------------------------------------------------------------- files


def test_nothing_is_overwritten_without_force(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.md"
    target.write_text("mine")
    found = analyze(file, "-o", target)
    assert (found.status, target.read_text()) == (2, "mine")
    assert found.err.startswith(f"error[usage]: {target} exists\nhint: ")
    assert analyze(file, "-o", target, "--force").status == 0
    assert looks_like(target.read_text()) == "md"


def test_a_link_is_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    assert analyze(file, "-o", tmp_path / "link.md", "--force").status == 0
    assert (tmp_path / "link.md").is_symlink()
    assert looks_like((tmp_path / "real.md").read_text()) == "md"


def test_permissions_are_those_of_any_new_file(file: Path, tmp_path: Path) -> None:
    analyze(file, "-o", tmp_path / "r.md")
    (tmp_path / "other").write_text("")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("r.md", "other")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("failing", ["replace", "chmod"])
def test_a_failed_write_leaves_what_was_there(
    file: Path, tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "r.md"
    target.write_text("old")
    monkeypatch.setattr(Path, failing, fail)
    found = analyze(file, "-o", target, "--force")
    assert found.status == 3
    assert found.err.startswith(
        f"error[write_failed]: {target}: cannot be written: No space left on device\nhint: "
    )
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.md", "trace.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_devices_are_written_to_and_stay_devices(file: Path) -> None:
    found = analyze(file, "-o", "/dev/full", "-f", "json")
    assert (found.status, found.err.split("\n")[0]) == (
        3,
        "error[write_failed]: /dev/full: cannot be written: No space left on device",
    )
    assert analyze(file, "-o", "/dev/null", "-f", "json").status == 0
    assert Path("/dev/full").is_char_device()
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no /dev/fd on this system")
def test_a_pipe_is_written_to_by_its_name(file: Path) -> None:
    reading, writing = os.pipe()
    try:
        assert analyze(file, "-q", "-f", "json", "-o", f"/dev/fd/{writing}").status == 0
    finally:
        os.close(writing)
    with os.fdopen(reading) as pipe:
        assert looks_like(pipe.read()) == "json"


# ------------------------------------------------------------------------------------------ colour, width


@pytest.mark.parametrize(
    ("arguments", "variables", "colored"),
    [
        ([], {}, True),
        (["--color", "never"], {}, False),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),
        ([], {"TERM": "dumb"}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_color_on_a_terminal(
    file: Path,
    arguments: list[str],
    variables: dict[str, str],
    colored: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in on_terminal(monkeypatch, file, *arguments)) == colored


@pytest.mark.parametrize(("color", "colored"), [("auto", False), ("never", False), ("always", True)])
def test_color_in_a_pipe(file: Path, color: str, colored: bool) -> None:
    assert ("\x1b[" in analyze(file, "-f", "rich", "--color", color).out) == colored


def width(text: str) -> int:
    return max(len(line) for line in text.splitlines())


@pytest.mark.parametrize(
    ("arguments", "columns", "most"),
    [
        ([], None, 80),
        ([], "120", 120),
        ([], "7", 40),
        ([], "nonsense", 80),
        ([], "99999999", 1000),
        ([], "²", 80),
        ([], "9" * 5000, 80),
        (["--width", "50"], "120", 50),
    ],
)
def test_width(
    file: Path, arguments: list[str], columns: str | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setenv("LINES", columns)
    assert 0 < width(analyze(file, "-f", "rich", *arguments).out) <= most


@pytest.mark.parametrize("value", ["39", "1001", "wide"])
def test_a_width_out_of_range(file: Path, value: str) -> None:
    assert analyze(file, "--width", value).status == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("name", ["rich", "md", "json"])
def test_a_stream_that_cannot_show_everything_is_no_crash(file: Path, encoding: str, name: str) -> None:
    found = analyze(file, "-f", name, encoding="utf-8")
    assert found.status == 0
    out = analyze_bytes(file, name, encoding)
    if name == "rich":
        out.decode(encoding)
        assert b"chip" in out
    else:
        assert out == found.out.encode()


def analyze_bytes(file: Path, name: str, encoding: str) -> bytes:
    from unittest import mock

    from mpg_cli.__main__ import main

    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with mock.patch.object(sys, "stdout", out):
        assert main(["analyze", "--no-cache", str(file), "-f", name]) == 0
    return out.buffer.getvalue()  # type: ignore[attr-defined,no-any-return]
