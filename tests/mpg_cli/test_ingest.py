"""From what is named on the command line to one dataset."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fixtures.nsight.writer import Exporter, write_sqlite
from mpg_cli import ingest as ingesting
from mpg_cli.ingest import IngestOptions, ingest
from mpg_cli.sources import rank_from_name
from mpg_parsers.errors import InputError
from tests.mpg_cli.running import ROOT, Result, analyze, event, kernel, mpg, trace


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Temporary files go where they can be seen; whatever a test does, none is left."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def write(folder: Path, name: str, text: str = "") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or trace())
    return path


def skipped(result: Result) -> list[tuple[str, str]]:
    found = [w for w in result.report["warnings"] if w["kind"] == "skipped_files"]
    return [(Path(w["source"]).name, w["message"]) for w in found]


# --------------------------------------------------------------------------------- what is read, what is not


def test_rubbish_beside_traces_is_skipped_with_a_notice(tmp_path: Path) -> None:
    write(tmp_path, "a.json")
    write(tmp_path, "config.json", '{"lr": 0.1}')
    write(tmp_path, "notes.txt", "hello")
    write(tmp_path, "empty.json", " ").write_text("")
    found = analyze(tmp_path)
    assert [s["path"] for s in found.report["sources"]] == [str(tmp_path / "a.json")]
    reasons = dict(skipped(found))
    assert sorted(reasons) == ["config.json", "empty.json", "notes.txt"]
    assert "no traceEvents" in reasons["config.json"]
    assert "0 bytes" in reasons["empty.json"]
    assert all(str(tmp_path) not in reason for reason in reasons.values())


@pytest.mark.parametrize(("text", "kind"), [("hello", "unsupported_format"), ('{"lr": 0.1}', "not_a_trace")])
def test_a_named_file_that_no_parser_takes(tmp_path: Path, text: str, kind: str) -> None:
    good, bad = write(tmp_path, "good.json"), write(tmp_path, "bad.json", text)
    assert [name for name, _ in skipped(analyze(bad, good))] == ["bad.json"]
    alone = analyze(bad)
    assert (alone.status, alone.out) == (3, "")
    assert alone.err.startswith(f"error[{kind}]: {bad}: ")
    assert "nothing that mpg can read" not in alone.err
    assert analyze(bad, good, "--strict").status == 3


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty_input"),
        (b'{"traceEvents": []}', "empty_input"),
        (b'{"traceEvents": [', "empty_input"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff", "corrupt_input"),
    ],
)
def test_a_named_trace_that_is_damaged_is_an_error_even_beside_others(
    tmp_path: Path, content: bytes, kind: str
) -> None:
    good, bad = write(tmp_path, "good.json"), tmp_path / "bad.json"
    bad.write_bytes(content)
    found = analyze(good, bad)
    assert found.status == 3
    assert found.err.startswith(f"error[{kind}]: {bad}")


def export(path: Path, *kernels: int) -> Path:
    """An export of Nsight Systems with a call, and kernels of these durations."""
    made = Exporter()
    made.call(0, 5, "cudaMalloc_v3020", 1)
    for number, dur in enumerate(kernels):
        made.kernel(1000 * number, 1000 * number + dur, "gemm(int)", correlationId=number + 2)
    write_sqlite(path, made.rows())
    return path


def notices(result: Result, kind: str) -> list[tuple[str, str]]:
    found = [w for w in result.report["warnings"] if w["kind"] == kind]
    return [(Path(w["source"]).name, w["message"]) for w in found]


@pytest.mark.parametrize("named", [False, True])
def test_a_report_of_the_host_alone_beside_others(tmp_path: Path, *, named: bool) -> None:
    good, silent = export(tmp_path / "good.sqlite", 100), export(tmp_path / "silent.sqlite")
    found = analyze(good, silent) if named else analyze(tmp_path)
    ((name, message),) = notices(found, "no_device_activity")
    assert name == "silent.sqlite"
    assert message.startswith("no device activity in the report: no table CUPTI_ACTIVITY_KIND_KERNEL")
    assert message.endswith("; this file is in no figure")
    assert [Path(s["path"]).name for s in found.report["sources"]] == ["good.sqlite"]
    assert analyze(tmp_path, "--strict").err.startswith(f"error[no_device_activity]: {silent}: ")


@pytest.mark.parametrize("named", [False, True])
def test_a_report_of_the_host_alone(tmp_path: Path, *, named: bool) -> None:
    silent = export(tmp_path / "silent.sqlite")
    write(tmp_path, "notes.txt", "hello")
    found = analyze(silent if named else tmp_path)
    assert (found.status, found.out) == (3, "")
    assert found.err.startswith(
        f"error[no_device_activity]: {silent}: no device activity in the report: no table"
    )


REPORT = b"NVIDIA Tegra Profiler Report 2024@6@2@225-".ljust(200, b"\0")


def test_a_report_whose_export_is_beside_it_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    export(tmp_path / "rank.0.sqlite", 100)
    (tmp_path / "rank.0.nsys-rep").write_bytes(REPORT)
    message = "its export rank.0.sqlite is read in its place (skipped)"
    assert skipped(analyze(tmp_path)) == [("rank.0.nsys-rep", message)]
    (tmp_path / "rank.1.nsys-rep").write_bytes(REPORT)
    found = analyze(tmp_path)
    assert found.err.startswith(f"error[needs_export]: {tmp_path}/rank.1.nsys-rep: ")


def test_a_profile_of_kernels_that_cannot_be_read_is_no_loss_of_time(tmp_path: Path) -> None:
    export(tmp_path / "a.sqlite", 100)
    profile = tmp_path / "a.ncu-rep"
    profile.write_bytes(b"NVR\0" + bytes(60))
    try:
        import ncu_report  # noqa: F401
    except ImportError:
        ((name, message),) = skipped(analyze(tmp_path))
        assert (name, "needs NVIDIA's reader" in message) == ("a.ncu-rep", True)
        assert analyze(tmp_path / "a.sqlite", profile).err.startswith(f"error[needs_export]: {profile}: ")


def test_a_profile_of_kernels_alone_has_no_timeline(tmp_path: Path) -> None:
    profile = ROOT / "fixtures/ncu/two_kernels.raw.csv"
    alone = analyze(profile)
    assert (alone.status, alone.out) == (3, "")
    assert alone.err.startswith(
        f"error[no_device_activity]: {profile}: a profile of single kernels, without a timeline"
    )
    assert "give it together with a trace" in alone.err
    assert notices(analyze(profile, write(tmp_path, "a.json")), "no_device_activity") == []


def test_the_nsys_that_is_named_exports_reports(tmp_path: Path) -> None:
    made = export(tmp_path / "made", 100)
    (tmp_path / "in").mkdir()
    report = tmp_path / "in/a.nsys-rep"
    report.write_bytes(REPORT)
    tool = tmp_path / "nsys"
    tool.write_text(f"""#!/bin/sh
[ "$1" = --version ] && echo "NVIDIA Nsight Systems version 2026.1.1-1v0" || cp {made} "$7"
""")
    tool.chmod(0o755)
    assert analyze(report, "--nsys", tool).report["devices"][0]["busy_ns"] == 100
    assert mpg("ingest", report, "--nsys", tool, "-o", tmp_path / "out").status == 0
    assert "there is no program nowhere" in analyze(report, "--nsys", "nowhere").err


def test_a_folder_of_rubbish(tmp_path: Path) -> None:
    for name in "abcde":
        write(tmp_path, f"{name}.txt", "hello")
    found = analyze(tmp_path)
    assert found.status == 3
    assert found.err.startswith(
        f"error[not_a_trace]: {tmp_path}: nothing that mpg can read: {tmp_path}/a.txt: "
    )
    assert "; and 2 more" in found.err
    assert "hint: run `mpg formats`" in found.err


def test_a_file_named_twice_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path, "rank0.json")
    (tmp_path / "link.json").symlink_to(path)
    found = analyze(path, f"label={path}", tmp_path, tmp_path / "link.json")
    assert [s["path"] for s in found.report["sources"]] == [str(path)]


def test_globs_labels_archives_and_standard_input(tmp_path: Path) -> None:
    texts = [trace(kernel(0, number)) for number in range(1, 6)]
    write(tmp_path, "x/r1.json", texts[0])
    write(tmp_path, "x/r2.json", texts[1])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("in/r3.json", texts[2])
    write(tmp_path, "r4.json", texts[3])
    paths = [tmp_path / "x/*.json", tmp_path / "all.zip", f"new={tmp_path}/r4.json", "-"]
    found = analyze(*paths, stdin=texts[4].encode())
    paths = [s["path"].removeprefix(f"{tmp_path}/") for s in found.report["sources"]]
    assert paths == ["x/r1.json", "x/r2.json", "all.zip!in/r3.json", "r4.json", "-"]


def test_standard_input_may_be_compressed() -> None:
    assert analyze("-", stdin=gzip.compress(trace().encode())).report["devices"][0]["busy_ns"] == 10_000


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.json")
    stamps = iter([(1, 1), (2, 2)])
    monkeypatch.setattr(ingesting, "_stamp", lambda _: next(stamps))
    found = analyze(path)
    assert found.status == 3
    assert "changed or vanished while it was read" in found.err


@pytest.mark.parametrize("spilled", [False, True])
def test_large_files_are_spilled_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spilled: bool
) -> None:
    files = [write(tmp_path, f"rank{n}.json", trace(kernel(0, 10 + n), rank=n, world=2)) for n in range(2)]
    expected = analyze(*files)
    monkeypatch.setattr(ingesting, "IN_MEMORY", 0 if spilled else 1 << 30)
    assert analyze(*files) == expected


def test_a_full_temporary_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "IN_MEMORY", 0)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polars.DataFrame.write_parquet", full)
    found = analyze(write(tmp_path, "a.json"))
    assert found.status == 3
    assert found.err.startswith("error[write_failed]: ")
    assert "No space left on device" in found.err


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), RuntimeError("a bug"), InputError("locked", "x", "y")]
)
def test_nothing_is_left_when_the_analysis_ends_early(
    tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "IN_MEMORY", 0)
    path = write(tmp_path, "a.json")

    def fail() -> None:
        with ingest([str(path)], IngestOptions()):
            raise error

    with pytest.raises(type(error)):
        fail()


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json")
    seen: list[tuple[str, int, int]] = []
    with ingest([str(path)], IngestOptions(progress=lambda *call: seen.append(call))):
        pass
    assert seen
    assert seen[-1] == (str(path), path.stat().st_size, path.stat().st_size)


# ------------------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.json", 3),
        ("runs/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", 0),
        ("dp0_pp0_tp1_dcp0_ep1_rank12.1790000000.pt.trace.json", 12),
        ("profile_trace_Rank_07.json", 7),
        ("all.zip!inner/rank2.json", 2),
        ("rank3_rank3.json", 3),
        ("local_rank0_rank8.json", 8),
        ("rank0_rank1.json", None),
        ("tp_rank_3.json", None),
        ("local-rank-3.json", None),
        ("node_rank1.json", None),
        ("rank3/trace.json", None),
        ("frank3.json", None),
        ("ranks_3.json", None),
        ("rank123456789.json", None),
        ("trace.json", None),
    ],
)
def test_rank_from_name(name: str, rank: int | None) -> None:
    assert rank_from_name(name) == rank


def test_what_the_file_states_goes_before_its_name(tmp_path: Path) -> None:
    found = analyze(write(tmp_path, "rank3.json", trace(rank=1, world=2)))
    assert found.report["sources"][0]["rank"] == 1
    assert "rank_from_name" not in found.warnings


def test_a_rank_from_a_name_is_told(tmp_path: Path) -> None:
    write(tmp_path, "rank3.json")
    write(tmp_path, "rank5.json")
    found = analyze(tmp_path)
    told = [(w["source"], w["message"]) for w in found.report["warnings"] if w["kind"] == "rank_from_name"]
    assert [Path(source).name for source, _ in told] == ["rank3.json", "rank5.json"]
    assert "rank5" in told[1][1]


@pytest.mark.parametrize("names", [("a.json", "b.json"), ("x/rank0.json", "y/rank0.json")])
def test_a_rank_given_twice_names_both_files(tmp_path: Path, names: tuple[str, str]) -> None:
    stated = {"rank": 0, "world": 2} if names[0] == "a.json" else {}
    paths = [write(tmp_path, name, trace(kernel(n, 10), **stated)) for n, name in enumerate(names)]
    found = analyze(tmp_path)
    assert found.status == 3
    assert found.err.startswith(f"error[duplicate_rank]: {paths[0]}: rank 0 is also in {paths[1]}\nhint: ")


@pytest.mark.parametrize(
    ("ranks", "world", "message"),
    [
        ([0, 1], 2, None),
        ([0, 2], 4, "2 of 4 ranks are not among the files: 1, 3"),
        ([1], 100, "99 of 100 ranks are not among the files: 0, 2, 3, 4, 5, 6, 7, 8, …"),
        (
            [0],
            10**12,
            "999999999999 of 1000000000000 ranks are not among the files: 1, 2, 3, 4, 5, 6, 7, 8, …",
        ),
        ([0, 1], 1, None),
    ],
)
def test_missing_ranks(tmp_path: Path, ranks: list[int], world: int, message: str | None) -> None:
    for rank in ranks:
        write(tmp_path, f"{rank}.json", trace(rank=rank, world=world))
    told = [w["message"] for w in analyze(tmp_path).report["warnings"] if w["kind"] == "missing_rank"]
    assert told == ([message] if message else [])


# --------------------------------------------------------------------------------- ingest, then report


def fleet(folder: Path) -> Path:
    """Traces with every kind of notice: of the folder, of a parser, and of the analysis."""
    twice = kernel(0, 10, correlation=3)
    write(folder, "rank0.json", trace(twice, twice, kernel(20, 5, "frobnicate")))
    write(folder, "rank2.json", trace(kernel(0, 7), rank=2, world=4))
    write(folder, "host.json", trace(event("cpu_op", "aten::mm", 0, 5)))
    write(folder, "notes.txt", "hello")
    write(folder, ".hidden", "x")
    return folder


def test_ingest_then_report_says_what_analyze_says(tmp_path: Path) -> None:
    folder = fleet(tmp_path / "fleet")
    direct = analyze(folder)
    assert {
        "skipped_files",
        "duplicate_events",
        "rank_from_name",
        "missing_rank",
        "no_device_activity",
    } <= set(direct.warnings)
    written = mpg("ingest", folder, "-o", tmp_path / "out")
    assert (written.status, written.out) == (0, "")
    assert written.err.endswith(f"Wrote {tmp_path}/out (3 sources)\n")
    assert "warning[duplicate_events]: " in written.err
    assert "warning[skipped_files]: " in written.err
    shutil.rmtree(folder)
    assert mpg("report", tmp_path / "out", "-f", "json") == direct


@pytest.mark.parametrize(
    "options", [["--window", "device"], ["--view", "fleet-paper"], ["--step-regex", "^aten"]]
)
def test_the_options_of_report_are_those_of_analyze(tmp_path: Path, options: list[str]) -> None:
    folder = fleet(tmp_path / "fleet")
    mpg("ingest", "-q", folder, "-o", tmp_path / "out")
    assert mpg("report", tmp_path / "out", "-f", "json", *options) == analyze(folder, *options)


def test_strict_holds_for_a_dataset_too(tmp_path: Path) -> None:
    mpg("ingest", "-q", fleet(tmp_path / "fleet"), "-o", tmp_path / "out")
    found = mpg("report", tmp_path / "out", "--strict")
    assert found.status == 3
    assert "hint: an error because of --strict" in found.err


def test_ingest_refuses_before_it_reads(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    found = mpg("ingest", tmp_path / "nowhere.json", "-o", tmp_path / "out")
    assert found.status == 2
    assert found.err == (
        f"error[usage]: {tmp_path}/out exists\nhint: choose another folder, or --force to replace a dataset\n"
    )


def test_a_dataset_among_its_inputs_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path, "a.json")
    for _ in range(2):
        assert mpg("ingest", "-q", tmp_path, "-o", tmp_path / "out", "--force").status == 0
    assert [s["path"] for s in analyze(tmp_path).report["sources"]] == [str(tmp_path / "a.json")]
    (name, reason), *others = skipped(analyze(tmp_path))
    assert (name, others) == ("out", [])
    assert "mpg report" in reason
    found = analyze(tmp_path / "out")
    assert found.status == 3
    assert "mpg report" in found.err


def test_ingest_of_nothing_leaves_nothing(tmp_path: Path) -> None:
    found = mpg("ingest", write(tmp_path, "bad.json", "{"), "-o", tmp_path / "out")
    assert found.status == 3
    assert [path.name for path in tmp_path.iterdir()] == ["bad.json"]


def test_a_report_on_what_is_no_dataset(tmp_path: Path) -> None:
    write(tmp_path, "a.json")
    for path, kind in (
        (tmp_path, "corrupt_input"),
        (tmp_path / "x", "not_found"),
        (tmp_path / "a.json", "not_found"),
    ):
        found = mpg("report", path)
        assert found.status == 3
        assert found.err.startswith(f"error[{kind}]: {path}: ")


def test_the_tables_can_be_read_by_anybody(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    mpg("ingest", "-q", write(tmp_path, "a.json"), "-o", tmp_path / "out")
    assert pq.read_table(tmp_path / "out/device_ops").column("dur_ns").to_pylist() == [10_000]
    manifest = json.loads((tmp_path / "out/mpg-dataset.json").read_text())
    assert manifest["sources"] == 1
