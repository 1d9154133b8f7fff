"""The command as a user meets it: statuses, streams, signals, hostile names."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mpg_cli import commands
from mpg_parsers.registry import parsers
from tests.mpg_cli.running import ROOT, Result, analyze, kernel, mpg, trace

HAS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(trace())
    return path


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """`mpg` in a process of its own, from this checkout."""
    paths = [str(ROOT), str(ROOT / "parsers"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, reversed(paths)))}
    environment |= options.pop("env", {})
    command = [sys.executable, "-m", "mpg_cli", *(str(argument) for argument in arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed_signals} | options
    return subprocess.Popen(command, env=environment, **pipes)


def heed_signals() -> None:
    """Undo what nohup, or a shell that runs the tests in the background, has switched off."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


# ----------------------------------------------------------------------------------------------- statuses


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["analyze", "-h"], 0),
        (["formats"], 0),
        (["schema"], 0),
        (["schema", "report"], 0),
        (["explain"], 0),
        (["hardware"], 0),
        (["hardware", "H100 SXM"], 0),
        (["hardware", "H1000"], 2),
        ([], 2),
        (["anlayze"], 2),
        (["analyze"], 2),
        (["analyze", "--windwo", "all", "x.json"], 2),
        (["analyze", "--window", "al", "x.json"], 2),
        (["analyze", "--config", "/nowhere.toml", "x.json"], 2),
        (["analyze", "--chip", "H1000", "x.json"], 2),
        (["analyze", "--pg-basis", "peek", "x.json"], 2),
        (["analyze", "--useful-tokens", "2", "x.json"], 2),
        (["analyze", "--useful-tokens", "most", "x.json"], 2),
        (["analyze", "--flops-per-step", "0", "x.json"], 2),
        (["analyze", "--price", "cheap", "x.json"], 2),
        (["analyze", "--price", "2.50/year", "x.json"], 2),
        (["analyze", "--chips", "0", "x.json"], 2),
        (["analyze", "--chips", "many", "x.json"], 2),
        (["analyze", "--by", "modul", "x.json"], 2),
        (["analyze", "--by", "op", "--by", "line", "x.json"], 2),
        (["report", "--price", "cheap", "x"], 2),
        (["report", "--by", "modul", "x"], 2),
        (["analyze", "--jobs", "-1", "x.json"], 2),
        (["analyze", "--jobs", "many", "x.json"], 2),
        (["ingest", "x.json"], 2),
        (["schema", "device_op"], 2),
        (["explain", "comunication"], 2),
        (["analyze", "/nowhere.json"], 3),
        (["analyze", "-"], 3),
        (["report", "/nowhere"], 3),
        (["formats", "/nowhere"], 3),
    ],
)
def test_status(arguments: list[str], status: int) -> None:
    found = mpg(*arguments)
    assert found.status == status
    assert "Traceback" not in found.err
    assert (found.out == "") == (status != 0)


def test_version() -> None:
    from mpg_cli import __version__

    assert mpg("--version").out == f"mpg {__version__}\n"


@pytest.mark.parametrize("kind", ["plain", "hint"])
def test_an_error_is_a_line_and_a_hint_on_standard_error(tmp_path: Path, kind: str) -> None:
    found = mpg("analyze", tmp_path / "nowhere.json")
    first, second, rest = found.err.split("\n")
    assert first == f"error[not_found]: {tmp_path}/nowhere.json: no such file or folder"
    assert second.startswith("hint: ")
    assert (rest, found.out) == ("", "")


def test_a_bug_has_a_status_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a\nb\x1b[31m" + "c" * 1000)

    monkeypatch.setattr(commands, "analyze_dataset", fail)
    found = mpg("analyze", file)
    assert (found.status, found.out) == (70, "")
    first, second, _ = found.err.split("\n")
    assert first.startswith("error[bug]: ValueError: a\\nb\\x1b[31mccc")
    assert len(first) < 600
    assert "--debug" in second
    assert "Traceback" in mpg("analyze", "--debug", file).err


def test_debug_shows_where_an_error_comes_from() -> None:
    found = mpg("analyze", "--debug", "/nowhere.json")
    assert found.status == 3
    assert "Traceback" in found.err
    assert "error[not_found]: /nowhere.json" in found.err


def test_an_error_of_the_system_is_no_bug(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error", "/some/file")

    monkeypatch.setattr(commands, "analyze_dataset", fail)
    found = mpg("analyze", file)
    assert (found.status, found.err) == (3, "error[io]: /some/file: Input/output error\n")


def test_ctrl_c(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "analyze_dataset", interrupt)
    found = mpg("analyze", file)
    assert (found.status, found.out, found.err) == (130, "", "")


# ------------------------------------------------------------------------------------------------- strict


@pytest.mark.parametrize(
    ("events", "strict"),
    [
        ([kernel(0, 10, correlation=1), kernel(0, 10, correlation=1)], 3),
        ([kernel(0, 10)], 0),
    ],
)
def test_strict(tmp_path: Path, events: list[Any], strict: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(trace(*events))
    assert analyze(path).status == 0
    found = analyze(path, "--strict")
    assert found.status == strict
    if strict:
        assert found.out == ""
        assert found.err.startswith(f"error[duplicate_events]: {path}: 1 device records are exact duplicates")
        assert found.err.endswith("hint: an error because of --strict\n")


# ----------------------------------------------------------------------------------------- other commands


def test_formats_of_a_file(tmp_path: Path, file: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    (tmp_path / ".hidden").write_text("")
    lines = mpg("formats", tmp_path).out.splitlines()
    assert f"{file}: pytorch: yes" in lines
    assert f"{tmp_path}/x.txt: pytorch: no: " in "\n".join(lines)
    assert len(lines) == 2 * len(parsers()) + 1
    assert "skipped: hidden files" in lines[-1]
    listed = mpg("formats").out.splitlines()
    assert {line.split()[0] for line in listed} >= {
        "pytorch",
        "nsight-systems",
        "nsight-compute",
        "rocprofv3",
    }
    assert {line[:16].strip() for line in listed} == {parser.name for parser in parsers()}  # they line up


def test_schema_of_tables_and_report() -> None:
    everything = mpg("schema").out
    for table in ("sources", "devices", "device_ops", "host_events", "steps"):
        assert mpg("schema", table).out in everything
    assert json.loads(mpg("schema", "report").out)["$schema"].startswith("https://json-schema.org/")


def test_explain_of_one_cause_and_of_all() -> None:
    assert mpg("explain", "communication").out.startswith("communication (runtime): ")
    listed = [line.split()[1] for line in mpg("explain").out.splitlines()]
    assert len(listed) == len(set(listed))
    assert {"productive", "communication", "unknown"} <= set(listed)


@pytest.mark.parametrize(
    ("arguments", "close"),
    [
        (["schema", "device_op"], "device_ops"),
        (["explain", "comunication"], "communication"),
        (["hardware", "H10 SXM"], "H100 SXM"),
        (["analyze", "--chip", "H10 SXM", "x.json"], "H100 SXM"),
        (["analyze", "--pg-basis", "peek", "x.json"], "peak"),
    ],
)
def test_did_you_mean(arguments: list[str], close: str) -> None:
    assert f"did you mean '{close}'?" in mpg(*arguments).err


def test_hardware_of_one_chip_and_of_all() -> None:
    one = mpg("hardware", "H100 SXM").out
    assert one.startswith("H100 SXM (NVIDIA)\n")
    assert "989.4" in one
    assert "H100 SXM" in mpg("hardware").out
    assert mpg("hardware", "NVIDIA H100 80GB HBM3").out == one


def test_hardware_lists_the_users_chips(tmp_path: Path) -> None:
    config = tmp_path / "mpg.toml"
    config.write_text('[[chip]]\nname = "Acme X1"\nmatrix = { bf16 = 7 }')
    assert "Acme X1" in mpg("hardware", "--config", config).out
    assert mpg("hardware", "Acme X1", "--config", config).status == 0
    assert mpg("hardware", "Acme X1").status == 2


def test_flops_per_step_without_steps_cannot_be_decided(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(trace(kernel(0, 10)))
    found = analyze(path, "--flops-per-step", "1e12", "--chip", "H100 SXM")
    assert (found.status, found.out) == (4, "")
    assert "--flops-per-step needs steps" in found.err


# ------------------------------------------------------------------------------------------ hostile names

HOSTILE = [
    b"new\nline.json",
    b"esc\x1b[31m.json",
    b"bad\xff\xfe.json",
    "名前 µ.json".encode(),
    b"'quo\"te.json",
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["json", "md", "rich"])
def test_a_hostile_name_harms_no_output(tmp_path: Path, name: bytes, kind: str) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    Path(path).write_text(trace())
    found = mpg("analyze", "--no-cache", "-f", kind, path)
    assert found.status == 0
    assert "\x1b" not in found.out + found.err
    if kind == "json":
        assert len(json.loads(found.out)["sources"]) == 1


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_hostile_name_in_an_error_stays_on_its_line(tmp_path: Path, name: bytes, encoding: str) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    for arguments in (
        ["analyze", path],
        ["formats", path],
        ["report", path],
        ["analyze", "x", "-o", path + "/x.md"],
    ):
        found = mpg(*arguments, encoding=encoding)
        assert found.status in (2, 3)
        assert "\x1b" not in found.err
        assert len(found.err.splitlines()) == 2
    Path(path).write_text("rubbish")
    assert len(mpg("analyze", path, encoding=encoding).err.splitlines()) == 2
    assert len(mpg("formats", path, encoding=encoding).out.splitlines()) == len(parsers())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_of_an_output(tmp_path: Path, file: Path, name: bytes) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/out " + name)
    found = mpg("analyze", "--no-cache", file, "-o", path, encoding="ascii")
    assert found.status == 0
    assert len(found.err.splitlines()) == 1
    assert Path(path).is_file()


# --------------------------------------------------------------------------------- processes of their own


def test_an_ascii_locale(tmp_path: Path) -> None:
    path = tmp_path / "µ.json"
    path.write_text(trace(kernel(0, 10, "kernel_名前")), encoding="utf-8")
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    status, out, err = finish(start("analyze", "--no-cache", "-f", "rich", path, env=environment))
    assert (status, err) == (0, b"")
    assert out.isascii()
    assert finish(start("analyze", tmp_path / "ñ.json", env=environment))[0] == 3


@pytest.mark.parametrize("arguments", [["analyze", "--no-cache", "-f", "json"], ["--help"], ["explain"]])
def test_a_closed_pipe(file: Path, arguments: list[str]) -> None:
    paths = [file] if "analyze" in arguments else []
    process = start(*arguments, *paths)
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    err = process.stderr.read()
    assert (process.wait(60), err) == (141, b"")
    process.stderr.close()


def test_a_closed_pipe_for_errors_is_no_failed_gate() -> None:
    process = start("analyze", "/nowhere.json", stderr=subprocess.PIPE)
    assert process.stderr
    process.stderr.close()
    assert process.stdout
    process.stdout.read()
    assert process.wait(60) == 141
    process.stdout.close()


@HAS_FULL
def test_a_full_disk_behind_standard_output(file: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        status, _, err = finish(start("analyze", "--no-cache", file, stdout=full))
        assert status == 3
        assert err.startswith(
            b"error[write_failed]: standard output: cannot be written: No space left on device"
        )
        status, _, err = finish(start("explain", stdout=full))
    assert (status, err) == (3, b"error[io]: No space left on device\n")


def endless(path: Path) -> None:
    """A trace that takes long to read: 2 GB of events in a file of a few megabytes, as gzip members."""
    events = (json.dumps(kernel(0, 1)) + ",").encode() * 100_000
    member = gzip.compress(events, 1)
    with path.open("wb") as out:
        out.write(gzip.compress(b'{"traceEvents": ['))
        for _ in range(150):
            out.write(member)


@pytest.mark.parametrize("command", ["analyze", "ingest"])
def test_ctrl_c_while_reading_leaves_nothing(tmp_path: Path, command: str) -> None:
    path, temporary, cache = tmp_path / "large.json.gz", tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    endless(path)
    target = ["-o", tmp_path / "out"] if command == "ingest" else ["--cache", cache]
    process = start(command, path, *target, env={"TMPDIR": str(temporary)})
    deadline = time.monotonic() + 30
    while not list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, b"", b"")
    assert list(temporary.iterdir()) == []
    assert not cache.exists() or list(cache.iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_result_of_helper_is_strict_about_status() -> None:
    with pytest.raises(AssertionError, match="boom"):
        _ = Result(3, "", "boom").report
