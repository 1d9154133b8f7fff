"""Settings that are huge, nested or of another program."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpg_cli.config import Settings, load
from mpg_parsers.errors import UsageError
from tests.mpg_cli.running import analyze, mpg

HUGE = "0x1" + "0" * 5000  # as a decimal number it has more digits than Python writes


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        f"[analyze]\njobs = {HUGE}",
        f"[analyze]\nwindow = {HUGE}",
        f"[analyze]\nchip = {HUGE}",
        f"[analyze]\nkeep-names = {HUGE}",
        f"[analyze]\nuseful-tokens = {HUGE}",
        f"[cache]\nlimit = {HUGE}",
        f"[[chip]]\nname = {HUGE}",
        f"[[chip]]\nname = 'X'\nmatrix = {{ bf16 = {HUGE} }}",
        f"[[chip]]\nname = 'X'\nunits = {HUGE}",
        f"[[model]]\nop = 'x::y'\nflops = 'm'\ndims = {{ m = {HUGE} }}",
        f"[[model]]\nop = 'x::y'\nflops = '1'\nunit = {HUGE}",
        "x = " + "[" * 100_000,
        "x = " + "{a=" * 100_000,
        "[analyze]\nwindow = '" + "x" * 100_000 + "'",
    ],
)
def test_what_is_huge_is_refused_in_a_line(text: str) -> None:
    Path("mpg.toml").write_text(text)
    found = analyze("nowhere.json")
    assert found.status == 2
    assert found.err.startswith("error[usage]: ")
    assert len(found.err) < 800


@pytest.mark.parametrize("content", [b"[broken", b'name = "caf\xe9"', b"x = " + b"[" * 100_000])
def test_a_pyproject_of_another_program_may_be_broken(content: bytes) -> None:
    Path("pyproject.toml").write_bytes(content)
    told: list[str] = []
    assert load(None, {}, told.append) == Settings()
    assert [line.startswith("pyproject.toml: ") for line in told] == [True]
    loud, quiet = mpg("hardware"), mpg("report", "nowhere", "-q")
    assert loud.status == 0
    assert loud.err.startswith("warning: pyproject.toml: ")
    assert "warning" not in quiet.err
    Path("mpg.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"mpg\.toml: "):
        load(None, {})
