"""Standard streams that are closed or full, and signals that end a run: no traceback, never status 1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli import commands
from mpg_cli.process import ending_in_order
from tests.mpg_cli.running import ROOT, mpg, trace
from tests.mpg_cli.test_cli import HAS_FULL, endless, finish, start

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(trace())
    return path


def shell(line: str, **variables: object) -> tuple[int, str, str]:
    """Status, output and errors of a shell line in which `mpg` is this checkout's."""
    code = f'mpg() {{ {sys.executable} -m mpg_cli "$@"; }}; {line}'
    paths = os.pathsep.join((str(ROOT), str(ROOT / "parsers"), os.environ.get("PYTHONPATH", "")))
    environment = os.environ | {"PYTHONPATH": paths} | {name: str(value) for name, value in variables.items()}
    done = subprocess.run(
        ["bash", "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "status", "out", "err"),
    [
        ('mpg analyze --no-cache "$T" >&-', 0, "", ""),
        ("mpg --help >&-", 0, "", ""),
        ("mpg analyze /nowhere >&- <&-", 3, "", "error[not_found]: /nowhere: "),
        ("mpg analyze /nowhere 2>&-", 3, "", ""),
        ("mpg analyze - <&-", 3, "", "error[empty_input]: -: "),
        ('mpg analyze --no-cache "$T" <&- >&- 2>&-', 0, "", ""),
        pytest.param("mpg analyze /nowhere 2>/dev/full", 3, "", "", marks=HAS_FULL),
        pytest.param("mpg analyze --debug /nowhere 2>/dev/full", 3, "", "", marks=HAS_FULL),
        pytest.param("mpg analyze --hlp 2>/dev/full", 3, "", "", marks=HAS_FULL),
    ],
)
def test_streams_that_are_closed_or_full(file: Path, line: str, status: int, out: str, err: str) -> None:
    found = shell(line, T=file)
    assert found[:2] == (status, out)
    assert found[2].startswith(err)
    assert "Traceback" not in found[2]
    assert (found[2] == "") == (err == "")


def test_no_message_gets_into_what_is_written(file: Path, tmp_path: Path) -> None:
    file.write_text(trace()[:-3])
    assert shell('mpg analyze "$T" -f json --no-cache -o "$O" 2>&-', T=file, O=tmp_path / "r.json")[:2] == (
        0,
        "",
    )
    status, out, _ = shell('mpg analyze "$T" -f json --no-cache 2>&-', T=file)
    assert (status, out) == (0, (tmp_path / "r.json").read_text())
    assert json.loads(out)["warnings"]


# ------------------------------------------------------------------------------------------------ signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_reading_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    path, temporary, cache = tmp_path / "large.json.gz", tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    endless(path)
    process = start("analyze", path, "--cache", cache, env={"TMPDIR": str(temporary)})
    deadline = time.monotonic() + 30
    while not list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(number)
    assert finish(process) == (128 + number, b"", b"")
    assert list(temporary.iterdir()) == []
    assert not cache.exists() or list(cache.iterdir()) == []


def test_handlers_are_put_back_and_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as caught, ending_in_order():  # noqa: PT012
            os.kill(os.getpid(), signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
        assert caught.value.code == 143
        assert (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)) == (
            signal.SIG_IGN,
            signal.SIG_DFL,
        )
    finally:
        signal.signal(signal.SIGHUP, before)


def test_main_runs_in_any_thread(file: Path) -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(mpg("explain").status))
    thread.start()
    thread.join()
    assert found == [0]


@pytest.mark.parametrize(
    ("behind", "status"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143), (ValueError(), 70)]
)
@pytest.mark.parametrize(
    "surface", [pl.exceptions.ComputeError("stopped"), pl.exceptions.PanicException("x")]
)
def test_an_interrupt_may_surface_as_another_error(
    file: Path, behind: Any, status: int, surface: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        try:
            raise behind  # noqa: TRY301
        except BaseException:  # noqa: BLE001
            raise surface  # noqa: B904

    monkeypatch.setattr(commands, "analyze_dataset", fail)
    found = mpg("analyze", "--no-cache", file)
    assert (found.status, found.out, found.err == "") == (status, "", status != 70)
