"""Several processes that share one file: the same report as one, whatever becomes of them."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mpg_cli import ingest
from mpg_parsers.kineto import parallel
from mpg_parsers.registry import NotParallelError
from mpg_parsers.source import expand
from tests.mpg_cli.running import ROOT, Result, analyze, kernel, mpg, profiler_step, trace

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURE = ROOT / "fixtures/train_2rank/rank0.pt.trace.json.gz"
NO_PROC = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc on this system")
BLOCK = 1 << 19


@pytest.fixture(autouse=True)
def small_files_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "SHARED", 1)
    monkeypatch.setattr(ingest, "SHARED_GZIP", 1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The tasks of the processes that are started."""
    tasks: list[dict[str, Any]] = []
    original = parallel._Worker.__init__

    def start(self: Any, task: dict[str, Any]) -> None:
        tasks.append(task)
        original(self, task)

    monkeypatch.setattr(parallel._Worker, "__init__", start)
    return tasks


@pytest.fixture(scope="module")
def text() -> bytes:
    """A trace of two blocks and a bit, in Kineto's layout."""
    once = gzip.decompress(FIXTURE.read_bytes())
    head, _, rest = once.partition(b'"traceEvents": [')
    events, end = rest.rsplit(b"\n  ],", 1)
    middle = b",".join([events] * (1 + 5 * BLOCK // (2 * len(events))))
    return head + b'"traceEvents": [' + middle + b"\n  ]," + end


@pytest.fixture(scope="module")
def reference(text: bytes, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a single process reports of it."""
    path = tmp_path_factory.mktemp("one") / "t.json"
    path.write_bytes(text)
    return without_place(analyze(path, "--jobs", 1), path)


def without_place(found: Result, path: Path) -> str:
    assert found.status == 0, found.err
    lines = found.out.replace(str(path), "PATH").splitlines()
    return "\n".join(line for line in lines if '"sha256"' not in line and '"size"' not in line)


def no_workers(mark: object) -> bool:
    """Whether no process works on a file whose path holds `mark`; they may take a moment to go."""
    for _ in range(100):
        if not list(workers(str(mark))):
            return True
        time.sleep(0.02)
    return False


def workers(mark: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"mpg_parsers.kineto.worker" in line and mark.encode() in line:
            yield int(folder.name)


# ------------------------------------------------------------------------------------------- the same report


@pytest.mark.parametrize(("name", "jobs"), [("t.json", 2), ("t.json", 5), ("t.json.gz", 2)])
def test_the_same_report(
    name: str, jobs: int, text: bytes, reference: str, tmp_path: Path, started: list[Any]
) -> None:
    """Also with more processes than blocks."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text, 1) if name.endswith("gz") else text)
    assert without_place(analyze(path, "--jobs", jobs), path) == reference
    assert [task["share"] for task in started] == list(range(jobs))


def test_the_same_report_from_standard_input(text: bytes, reference: str, started: list[Any]) -> None:
    found = analyze("-", "--jobs", 2, stdin=text)
    assert without_place(found, Path("<stdin>")).count("\n") == reference.count("\n")
    assert found.report["ledger"] == analyze("-", "--jobs", 1, stdin=text).report["ledger"]
    assert len(started) == 2


def test_the_same_tables(text: bytes, tmp_path: Path, started: list[Any]) -> None:
    """`mpg ingest` writes the same rows; those of host events may be in another order."""
    import polars as pl

    path = tmp_path / "t.json"
    path.write_bytes(text)
    tables = {}
    for jobs in (1, 2):
        assert mpg("ingest", "-q", path, "-o", tmp_path / str(jobs), "--jobs", jobs).status == 0
        folders = sorted(p for p in (tmp_path / str(jobs)).iterdir() if p.is_dir())
        tables[jobs] = {f.name: pl.read_parquet(f / "*.parquet") for f in folders}
    assert len(started) == 2
    assert tables[1].keys() == tables[2].keys() != set()
    for name, frame in tables[1].items():
        other = tables[2][name]
        assert frame.sort(frame.columns).equals(other.sort(frame.columns), null_equal=True), name


def test_names_are_kept_only_if_asked_for(tmp_path: Path, started: list[Any]) -> None:
    path = tmp_path / "t.json"
    path.write_text(trace(kernel(0, 9, "/home/me/secret/k.py"), profiler_step(1, 0, 20)))
    for arguments, kept in (([], False), (["--keep-names"], True)):
        assert ("/home/me/secret" in analyze(path, "--jobs", 2, *arguments).out) == kept
    assert [task["keep_names"] for task in started] == [False, False, True, True]


@pytest.mark.parametrize("size", ["small", "one job"])
def test_who_reads_alone(
    size: str, tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_text(trace())
    if size == "small":
        monkeypatch.setattr(ingest, "SHARED", path.stat().st_size + 1)
    assert analyze(path, "--jobs", 2 if size == "small" else 1).status == 0
    assert started == []


def test_a_file_of_forty_megabytes(
    tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the thresholds as they are."""
    monkeypatch.undo()
    event = (
        b'{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":%d,"dur":5,"args":{"correlation":%d}}'
    )
    padding = b',{"ph":"i","name":"%s","ts":1}' % (b"x" * 4000)
    path = tmp_path / "t.json"
    rows = b",\n".join(event % (10 * i, i) + padding for i in range(9_500))
    path.write_bytes(b'{"traceEvents":[\n' + rows + b"\n]}")
    assert path.stat().st_size > ingest.SHARED
    reports = [without_place(analyze(path, "--jobs", jobs), path) for jobs in (1, 2)]
    assert reports[0] == reports[1]
    assert '"kernel_count": 9500' in reports[0]


# -------------------------------------------------------------------------------------------------- damage


def cut(text: bytes) -> bytes:
    return text[: 2 * BLOCK + 5000]


def quote(text: bytes) -> bytes:
    at = text.index(b'"name": "aten::mm"', BLOCK + 1000)
    return text[:at] + b'"name": "aten"::mm"' + text[at + 18 :]


DAMAGE = {
    "cut": cut,
    "a quote too many": quote,
    "an event that is no object": lambda text: text.replace(b'"traceEvents": [', b'"traceEvents": [ 17,', 1),
    "no UTF-8": lambda text: text.replace(b'"aten::mm"', b'"aten::\xff"', 1),
    "another encoding": lambda text: text.decode().encode("utf-16"),
    "words after the end": lambda text: text + b"\nProfiler finished\n",
    "metadata with a comma too many": lambda text: text[:-4] + b",\n}\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_read_by_one(damage: str, text: bytes, tmp_path: Path, started: list[Any]) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(DAMAGE[damage](text))
    alone, shared = (analyze(path, "--jobs", jobs) for jobs in (1, 2))
    assert len(started) == 2
    assert (shared.status, shared.out, shared.err) == (alone.status, alone.out, alone.err)
    assert no_workers(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"traceEvents": []}', b'{"a": 1}', b"{", b"hello"])
def test_what_is_no_trace_is_refused_all_the_same(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    alone, shared = (analyze(path, "--jobs", jobs) for jobs in (1, 2))
    assert alone.status == 3
    assert (shared.status, shared.err) == (3, alone.err)


def test_a_gzip_file_with_more_behind_it(text: bytes, tmp_path: Path, started: list[Any]) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text, 1) + b"more")
    alone, shared = (analyze(path, "--jobs", jobs) for jobs in (1, 2))
    assert "repaired_input" in alone.warnings
    assert shared.out == alone.out
    assert len(started) == 2


def test_a_gzip_file_that_is_cut(text: bytes, tmp_path: Path, started: list[Any]) -> None:
    path = tmp_path / "t.json.gz"
    whole = gzip.compress(text, 1)
    path.write_bytes(whole[: len(whole) // 2])
    alone, shared = (analyze(path, "--jobs", jobs) for jobs in (1, 2))
    assert "truncated_input" in alone.warnings
    assert shared.out == alone.out
    assert len(started) == 2


# ------------------------------------------------------------------------------------ processes that fail


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false", sys.executable])
def test_processes_that_cannot_work(
    python: str, text: bytes, reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cannot be started, end at once, or are killed at once."""
    if python == sys.executable:
        kill_first(monkeypatch)
    monkeypatch.setattr(parallel.sys, "executable", python)
    path = tmp_path / "t.json"
    path.write_bytes(text)
    assert without_place(analyze(path, "--jobs", 2), path) == reference
    assert no_workers(tmp_path)


def kill_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the second worker as soon as it is started."""
    original = parallel._Worker.__init__

    def start(self: Any, task: dict[str, Any]) -> None:
        original(self, task)
        if task["share"] == 1:
            self._process.send_signal(signal.SIGKILL)

    monkeypatch.setattr(parallel._Worker, "__init__", start)


def test_one_that_cannot_be_started_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, stopped = parallel._Worker.__init__, []

    def start(self: Any, task: dict[str, Any]) -> None:
        if task["share"] == 1:
            raise BlockingIOError
        original(self, task)

    monkeypatch.setattr(parallel._Worker, "__init__", start)
    monkeypatch.setattr(
        parallel._Worker, "stop", lambda self, stop=parallel._Worker.stop: stopped.append(stop(self))
    )
    path = tmp_path / "t.json"
    path.write_text(trace())
    with expand([str(path)]) as expansion, pytest.raises(NotParallelError):
        parallel.Workers(expansion.sources[0], 2, keep_names=False).__enter__()
    assert len(stopped) == 1
    assert no_workers(tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"\xff" * 8,
        (3).to_bytes(8, "little") + b"abc",
        (1).to_bytes(8, "little") + b"\7",
        b"\5" * 99,
    ],
)
def test_what_is_no_message(message: bytes) -> None:
    reader, writer = os.pipe()
    os.write(writer, message)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert parallel._read(pipe) == {}


# --------------------------------------------------------------------------------------------------- Ctrl-C


@NO_PROC
def test_ctrl_c_leaves_no_process_and_no_file(text: bytes, tmp_path: Path) -> None:
    """All processes of the terminal's group are told, as by a keyboard."""
    path, temporary, cache = tmp_path / "large.json.gz", tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    head, _, rest = text.partition(b'"traceEvents": [')
    events = rest.rsplit(b"\n  ],", 1)[0]
    with path.open("wb") as out:
        out.write(gzip.compress(head + b'"traceEvents": [' + events))
        member = gzip.compress(b"," + events, 1)
        for _ in range(400):
            out.write(member)
    assert path.stat().st_size > 4 << 20  # large enough to be shared by default
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "parsers")]),
        "TMPDIR": str(temporary),
    }
    command = [sys.executable, "-m", "mpg_cli", "analyze", str(path), "--jobs", "2", "--cache", str(cache)]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell may have switched it off
    )
    deadline = time.monotonic() + 20
    while len(list(workers(str(tmp_path)))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(list(workers(str(tmp_path)))) == 2
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert no_workers(tmp_path)
    assert list(temporary.iterdir()) == []
    assert not cache.exists() or list(cache.iterdir()) == []
