"""Reports that only nsys can read, and what is no export."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures.nsight.writer import Exporter, write_sqlite
from mpg_parsers.errors import InputError
from mpg_parsers.nsight.exporting import stated_version
from mpg_parsers.nsight_systems import NSIGHT_SYSTEMS
from mpg_parsers.registry import detect
from mpg_parsers.source import expand
from tests.parsers.nsight.parsing import parse_file

NEW = b"\x00\x01NVIDIA Tegra Profiler Report 2024@6@2@225-246235244400v0." + bytes(range(256))
OLD = b"\x00\x01NVIDIA Tegra Profiler Report 1." + bytes(range(256))


@pytest.fixture(autouse=True)
def _no_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "nsys" else found(name))


def report(folder: Path, data: bytes = NEW, name: str = "my report.nsys-rep") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def failure(path: Path, nsys: str = "") -> InputError:
    with pytest.raises(InputError) as caught:
        parse_file(path, nsys=nsys)
    return caught.value


def nsys(folder: Path, script: str) -> str:
    """An nsys of our own: a shell script that is called as nsys is."""
    tool = folder / "nsys"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return str(tool)


def version(text: str, then: str) -> str:
    return f'if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version {text}-1v0"; else {then}; fi'


def test_versions_in_the_header() -> None:
    assert stated_version(NEW) == (2024, 6, 2)
    assert stated_version(OLD) is None


@pytest.mark.parametrize(
    ("data", "needed"), [(NEW, "Nsight Systems 2024.6.2 or newer"), (OLD, "a current Nsight")]
)
def test_without_nsys_the_command_and_version_are_named(tmp_path: Path, data: bytes, needed: str) -> None:
    path = report(tmp_path, data)
    error = failure(path)
    assert error.kind == "needs_export"
    assert "no nsys on the PATH" in error.message
    assert needed in error.hint
    assert f"nsys export --type sqlite --output report.sqlite '{path}'" in error.hint


def test_an_nsys_that_is_older_than_the_report(tmp_path: Path) -> None:
    error = failure(report(tmp_path), nsys(tmp_path, version("2024.1.1.59", "exit 9")))
    assert error.kind == "needs_export"
    assert "2024.1.1, which cannot read it" in error.message


def test_an_nsys_that_is_not_there(tmp_path: Path) -> None:
    error = failure(report(tmp_path), "/nowhere/nsys")
    assert error.message.endswith("and there is no program /nowhere/nsys")


def test_an_nsys_of_unknown_version(tmp_path: Path) -> None:
    assert "of unknown version" in failure(report(tmp_path), nsys(tmp_path, "echo hello")).message


@pytest.mark.parametrize("made", ["2024.6.2.225", "2025.1.0.1"])
def test_an_nsys_that_is_new_enough_is_run(tmp_path: Path, made: str) -> None:
    export = Exporter()
    export.kernel(0, 5, "gemm(int)")
    write_sqlite(tmp_path / "made", export.rows())
    # nsys export --type sqlite --force-overwrite true --output FILE REPORT
    script = f'echo "$@" > {tmp_path}/called; cmp -s "$8" "{tmp_path}/my report.nsys-rep" && cp {tmp_path}/made "$7"'
    parsed = parse_file(report(tmp_path), nsys=nsys(tmp_path, version(made, script)))
    assert parsed["device_ops"]["name"].to_list() == ["gemm(int)"]
    called = (tmp_path / "called").read_text()
    assert called.startswith("export --type sqlite --force-overwrite true --output ")
    left = called.split()[-1]
    assert not Path(left).exists()


def test_an_nsys_that_fails(tmp_path: Path) -> None:
    tool = nsys(
        tmp_path, version("2025.1.0.1", 'echo partial > "$7"; echo created in a newer version >&2; exit 1')
    )
    error = failure(report(tmp_path), tool)
    assert error.kind == "needs_export"
    assert "status 1 (created in a newer version)" in error.message


@pytest.mark.parametrize("name", ["x.sqlite", "x.nsys-rep", "x.qdrep", "X.SQLITE"])
def test_a_file_that_only_looks_like_a_report(tmp_path: Path, name: str) -> None:
    error = failure(report(tmp_path, b"\x8e\x01garbage" * 99, name))
    assert error.kind == "needs_export"
    assert "nsys export" in error.hint


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"data":["[Unknown]","ProcessStreams"]}\n{"Type":1}\n', "json"),
        (b"ARROW1\0\0" + bytes(64), "arrowdir"),
        (b"\xff\xff\xff\xff\x10\0\0\0" + bytes(64), "arrow"),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "hdf"),
    ],
)
def test_exports_of_other_types(tmp_path: Path, data: bytes, kind: str) -> None:
    error = failure(report(tmp_path, data, "report.out"))
    assert error.kind == "unsupported_format"
    assert f"--type {kind}" in error.message
    assert "nsys export --type sqlite" in error.hint


@pytest.mark.parametrize(
    "data", [b'{"traceEvents": []}', b"[]", b"\xef\xbb\xbf[]", b'\n {"data": 5}', b"\xff\xfe[\0]\0"]
)
def test_traces_are_not_taken_whatever_their_name(tmp_path: Path, data: bytes) -> None:
    with expand([str(report(tmp_path, data, "trace.sqlite"))]) as expansion:
        assert detect(expansion.sources[0]) is not NSIGHT_SYSTEMS
