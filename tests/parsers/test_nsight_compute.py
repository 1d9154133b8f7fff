"""Kernel profiles of Nsight Compute, from the bytes of a file to kernel_counters."""

from __future__ import annotations

import csv
import importlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mpg_parsers import registry
from mpg_parsers.errors import InputError
from mpg_parsers.nsight_compute import MAX_LINE, NSIGHT_COMPUTE
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices, read, read_text

if TYPE_CHECKING:
    import polars as pl

FIXTURES = ROOT / "fixtures/ncu"
RAW, DETAILS = FIXTURES / "two_kernels.raw.csv", FIXTURES / "two_kernels.details.csv"
CORPUS = ROOT.parent / "shared/corpus/nsight/ncu"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no real reports at {CORPUS}")
LAUNCHES = [
    {
        "launch": 0, "process": 77, "device": 0, "compute_capability": "9.0", "grid": "[64, 1, 1]",
        "name": "void sgemm<(int)4>(const float *, float *)", "block": "[256, 1, 1]", "duration_ns": 10_000,
        "clock_hz": 1e9, "sm_throughput": 0.4, "memory_throughput": 0.5, "achieved_occupancy": 0.8,
        "waves_per_sm": 0.48, "dram_bytes": 1e7,
    },
    {
        "launch": 1, "process": 77, "device": 0, "compute_capability": "9.0", "grid": "[8, 16, 1]",
        "name": "gemm_bf16", "block": "[384, 1, 1]", "duration_ns": 8_000,
        "clock_hz": 1e9, "sm_throughput": 0.65, "memory_throughput": 0.25, "achieved_occupancy": 0.125,
        "waves_per_sm": 0.97, "dram_bytes": 4e6,
    },
]  # fmt: skip
WORK = [
    {
        "device_name": "NVIDIA H200", "dram_fraction": 0.48828125, "tensor_pipe": 0, "sm_active": 0.75,
        "fp64_flops": 0, "fp16_flops": 0, "tensor_ops": 0, "tensor_type": None, "flops": 21_500_000,
        "fp32_flops": 21_500_000, "fp32_flops_per_s": 2.15e12, "fp32_peak_flops_per_s": 33.792e12,
        "fp32_fraction": 2150 / 33792, "fp64_fraction": 0, "arithmetic_intensity": 2.15,
    },
    {
        "device_name": "NVIDIA H200", "dram_fraction": 0.244140625, "tensor_pipe": 0.625, "sm_active": 0.75,
        "fp64_flops": 0, "fp32_flops": 0, "fp16_flops": 0, "tensor_ops": 4_294_967_296, "tensor_type": "bf16",
        "flops": 4_294_967_296, "arithmetic_intensity": 1073.741824,
    },
]  # fmt: skip


def assert_launches(frame: pl.DataFrame, wanted: list[dict[str, Any]]) -> None:
    assert frame.height == len(wanted)
    for found, want in zip(frame.iter_rows(named=True), wanted, strict=True):
        for name, value in want.items():
            exact = value is None or isinstance(value, int | str)
            assert found[name] == (value if exact else pytest.approx(value, rel=1e-12)), name


def test_raw_page() -> None:
    found = read(NSIGHT_COMPUTE, RAW)
    assert_launches(found["kernel_counters"], [a | b for a, b in zip(LAUNCHES, WORK, strict=True)])
    assert found["sources"].select("format", "events", "rank", "host", "node").row(0) == (
        "nsight-compute", 2, None, None, None,
    )  # fmt: skip
    assert notices(found) == []
    assert all(found[name].is_empty() for name in ("device_ops", "host_events", "steps", "devices"))


def test_details_page() -> None:
    found = read(NSIGHT_COMPUTE, DETAILS)
    assert_launches(found["kernel_counters"], LAUNCHES)
    assert found["kernel_counters"]["dram_fraction"].to_list() == [0.4883, 0.2441]
    assert found["kernel_counters"]["flops"].to_list() == [None, None]
    assert notices(found) == []


def rows_of(path: Path) -> list[list[str]]:
    lines = path.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    return [row for row in csv.reader(lines[start:]) if len(row) > 1]


def written(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


def test_base_units(tmp_path: Path) -> None:
    """The same launches with `--print-units base`."""
    base = {"Kbyte/cycle": ("byte/cycle", 3), "Tbyte/second": ("byte/second", 12), "usecond": ("nsecond", 3),
            "cycle/nsecond": ("cycle/second", 9)}  # fmt: skip
    header, units, *rows = rows_of(RAW)
    for row in rows:
        for at, unit in enumerate(units):
            if unit in base:
                row[at] = str(round(float(row[at]) * 10 ** base[unit][1]))
    text = written([header, [base.get(unit, (unit, 0))[0] for unit in units], *rows])
    found = read_text(NSIGHT_COMPUTE, tmp_path, text)
    assert_launches(found["kernel_counters"], [a | b for a, b in zip(LAUNCHES, WORK, strict=True)])


def test_metrics_by_id_on_a_details_page(tmp_path: Path) -> None:
    """`ncu --csv --metrics …` without a page."""
    head = [
        "0",
        "1",
        "app",
        "host",
        "k",
        "1",
        "7",
        "(32, 1, 1)",
        "(2, 1, 1)",
        "0",
        "8.0",
        "Command line profiler metrics",
    ]
    columns = [*rows_of(DETAILS)[0][:12], "Metric Name", "Metric Unit", "Metric Value"]
    stem = "smsp__sass_thread_inst_executed_op_f"
    metrics = [(f"{stem}add_pred_on.sum", "inst", "1,000"), (f"{stem}mul_pred_on.sum", "inst", "10"),
               (f"{stem}fma_pred_on.sum", "inst", "1"), ("gpu__time_duration.sum", "us", "1.5")]  # fmt: skip
    found = read_text(NSIGHT_COMPUTE, tmp_path, written([columns, *([*head, *metric] for metric in metrics)]))
    row = found["kernel_counters"].row(0, named=True)
    assert (row["fp32_flops"], row["duration_ns"], row["block"], row["grid"]) == (
        1012,
        1500,
        "[32, 1, 1]",
        "[2, 1, 1]",
    )
    assert found["sources"]["node"][0] is not None


def test_tables_one_after_another(tmp_path: Path) -> None:
    text = RAW.read_text() + DETAILS.read_text() + RAW.read_text()
    found = read_text(NSIGHT_COMPUTE, tmp_path, text)
    assert found["kernel_counters"]["name"].to_list() == [row["name"] for row in LAUNCHES] * 3
    assert notices(found) == [("bad_row", 1)]  # what the program printed: "step 1"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    """A shell may recode what it redirects."""
    text = RAW.read_text().replace("\n", "\r\n").encode(encoding)
    found = read_text(NSIGHT_COMPUTE, tmp_path, text)
    assert_launches(found["kernel_counters"], [a | b for a, b in zip(LAUNCHES, WORK, strict=True)])


def test_old_columns(tmp_path: Path) -> None:
    """Reports of 2020 have no shapes among the first columns, those of 2022.3 a time."""
    rows = [[cell for at, cell in enumerate(row) if at not in (7, 8)] for row in rows_of(RAW)]
    rows = [
        [*row[:5], extra, *row[5:]] for row, extra in zip(rows, ["Kernel Time", "", "x", "y"], strict=True)
    ]
    found = read_text(NSIGHT_COMPUTE, tmp_path, written(rows))
    found_shapes = found["kernel_counters"].select("grid", "block").rows()
    assert found_shapes == [(None, None)] * 2
    for name, values in {"grid": ("8", "4.000000", "1"), "block": ("32", "1", "1")}.items():
        for axis, value in zip("xyz", values, strict=True):
            rows = [
                [*row, new]
                for row, new in zip(rows, [f"launch__{name}_dim_{axis}", "", value, value], strict=True)
            ]
    found = read_text(NSIGHT_COMPUTE, tmp_path, written(rows))
    shapes = {"grid": "[8, 4, 1]", "block": "[32, 1, 1]"}
    assert_launches(found["kernel_counters"], [a | b | shapes for a, b in zip(LAUNCHES, WORK, strict=True)])


def test_names_of_hosts_and_folders(tmp_path: Path) -> None:
    text = RAW.read_text().replace("127.0.0.1", "gpu7.example").replace("gemm_bf16", "/home/ann/k.cu::k")
    hidden = read_text(NSIGHT_COMPUTE, tmp_path, text)
    assert (hidden["sources"]["host"][0], hidden["kernel_counters"]["name"][1]) == (None, "k.cu::k")
    shown = read_text(NSIGHT_COMPUTE, tmp_path, text, keep_names=True)
    assert (shown["sources"]["host"][0], shown["kernel_counters"]["name"][1]) == (
        "gpu7.example",
        "/home/ann/k.cu::k",
    )
    assert shown["sources"]["node"][0] == hidden["sources"]["node"][0]
    assert all(
        "train" not in str(row) for found in (hidden, shown) for t in found.values() for row in t.rows()
    )


REFUSED: dict[str, tuple[str, str, str]] = {
    "no launches": (written(rows_of(RAW)[:2]), "empty_input", "no kernel launch"),
    "only names": (written(rows_of(RAW)[:1]), "corrupt_input", "row of units is missing"),
    "no units": (written([rows_of(RAW)[0], *rows_of(RAW)[2:]]), "corrupt_input", "row of units is missing"),
    "another locale": (RAW.read_text().replace("7,500.000000", "7.500"), "unsupported_format", "7.500 may have dots"),
    "a summary": ('"Process ID","Process Name","Host Name","Kernel Name","Block Size","Invocations","Metric Name"\n',
                  "unsupported_format", "print-summary"),
    "a long cell": (RAW.read_text().replace("gemm_bf16", "x" * 200_000), "corrupt_input", "field larger than"),
    "a long line": (RAW.read_text() + "x" * (MAX_LINE + (2 << 20)), "corrupt_input", "a line of over 8 MiB"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path: Path, text: str, kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_text(NSIGHT_COMPUTE, tmp_path, text)
    assert caught.value.kind == kind
    assert caught.value.hint


@pytest.mark.parametrize(
    "head", [b"", b"{}", b"ID,name\n", b"==PROF== Connected\n", b"SQLite format 3\0", b"NVR"]
)
def test_sniff_gives_a_reason(head: bytes) -> None:
    assert NSIGHT_COMPUTE.sniff(head, "x.csv")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@example(None)
def test_damage_is_an_error_or_a_smaller_table(tmp_path: Path, data: st.DataObject | None) -> None:
    """Whatever happens to the bytes: an InputError, or rows of the table's types; never another exception."""
    text = bytearray((RAW if data is None or data.draw(st.booleans()) else DETAILS).read_bytes())
    for _ in range(data.draw(st.integers(1, 6)) if data else 0):
        assert data is not None
        at = data.draw(st.integers(250, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    if data and data.draw(st.booleans()):
        del text[data.draw(st.integers(400, len(text))) :]
    try:
        read_text(NSIGHT_COMPUTE, tmp_path, bytes(text))
    except InputError as error:
        assert error.hint  # noqa: PT017 - one of two outcomes


# -- reports through ncu-report -------------------------------------------------------------------------------------


@dataclass
class Metric:
    amount: float | str
    of: str = ""

    def value(self) -> float | str:
        return self.amount

    def unit(self) -> str:
        return self.of


class Action(dict[str, Metric]):
    NameBase_DEMANGLED = 1
    WorkloadType_KERNEL = 0

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self)

    def name(self, base: int) -> str:
        assert base == self.NameBase_DEMANGLED
        return "void k<4>(float *)"

    def workload_type(self) -> int:
        return 2 if "range" in self else 0


ACTION = Action(
    {
        "gpu__time_duration.sum": Metric(1504, "ns"),
        "launch__device_id": Metric(1.0),
        "launch__waves_per_multiprocessor": Metric(1 / 384),
        "sm__cycles_elapsed.avg.per_second": Metric(1.5e9, "hz"),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": Metric(25.0, "%"),
        "dram__bytes.sum": Metric(float("nan"), "byte"),
        "device__attribute_display_name": Metric("NVIDIA A100"),
        "device__attribute_compute_capability_major": Metric(8.0),
        "device__attribute_compute_capability_minor": Metric(0.0),
        "launch__func_cache_config": Metric("CachePreferNone"),
        **{f"launch__grid_dim_{axis}": Metric(n) for axis, n in zip("xyz", (4, 2, 1), strict=True)},
        **{f"launch__block_dim_{axis}": Metric(n) for axis, n in zip("xyz", (32, 1, 1), strict=True)},
    }
)  # fmt: skip


def install(monkeypatch: pytest.MonkeyPatch, load: object) -> None:
    module = ModuleType("ncu_report")
    module.load_report = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ncu_report", module)


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"NVR\0 and more"

    def load(path: str) -> list[list[Action]]:
        assert Path(path).read_bytes() == content
        return [[ACTION, Action({"range": Metric(1)})], [ACTION]]

    install(monkeypatch, load)
    found = read_text(NSIGHT_COMPUTE, tmp_path, content)
    want = {"name": "void k<4>(float *)", "process": None, "device": 1, "device_name": "NVIDIA A100",
            "compute_capability": "8.0", "grid": "[4, 2, 1]", "block": "[32, 1, 1]", "duration_ns": 1504,
            "clock_hz": 1.5e9, "sm_throughput": 0.25, "waves_per_sm": 1 / 384, "dram_bytes": None}  # fmt: skip
    assert_launches(found["kernel_counters"], [{"launch": 0} | want, {"launch": 2} | want])


def test_report_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str) -> None:
        raise RuntimeError("protobuf")

    install(monkeypatch, load)
    with pytest.raises(InputError, match="ncu-report cannot read it: protobuf") as caught:
        read_text(NSIGHT_COMPUTE, tmp_path, b"NVR\0")
    assert caught.value.kind == "corrupt_input"


def test_report_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(InputError) as caught:
        read_text(NSIGHT_COMPUTE, tmp_path, b"NVR\0")
    assert caught.value.kind == "needs_export"
    assert f"ncu --import {tmp_path / 'file'} --csv --page raw" in caught.value.hint
    assert "mpg-cli[ncu]" in caught.value.hint


# -- real ones ------------------------------------------------------------------------------------------------------

REAL = {  # metric: (column, factor), of the same report read by NVIDIA's Python interface
    "gpu__time_duration.sum": ("duration_ns", [1600, 1472, 1568, 1504]),
    "gpc__cycles_elapsed.avg.per_second": (
        "clock_hz",
        [1362708333.3, 1425951086.9, 1395195578.2, 1388741134.7],
    ),
    "sm__throughput": ("sm_throughput", [0.00033443, 0.00016873, 0.00033331, 0.00016957]),
    "gpu__compute_memory_throughput": ("memory_throughput", [0.01272539, 0.01221444, 0.01332853, 0.01207243]),
    "gpu__dram_throughput": ("dram_fraction", [0.0004069, 0.00042459, 0.0004069, 0.00041556]),
    "sm__warps_active": ("achieved_occupancy", [0.06233954, 0.06232143, 0.06234056, 0.06232194]),
}


@needs_corpus
@pytest.mark.parametrize(("file", "digits"), [("raw", 1e-4), ("raw_base", 0.2), ("details", 0.2)])
def test_real_csv(file: str, digits: float) -> None:
    found = read(NSIGHT_COMPUTE, CORPUS / f"josiahls.{file}.csv")["kernel_counters"]
    assert found["name"].to_list() == [
        f"{k}(float *)" for k in ("warmingUp", "mathKernel1", "mathKernel2", "mathKernel3")
    ]
    assert found["grid"].unique().to_list() == ["[1, 1, 1]"]
    durations = [1600, 1470, 1570, 1500] if file == "details" else REAL["gpu__time_duration.sum"][1]
    assert found["duration_ns"].to_list() == durations
    for column, values in REAL.values():
        assert found[column].to_list() == pytest.approx(values, rel=digits)


@needs_corpus
def test_real_report() -> None:
    pytest.importorskip("ncu_report", reason="ncu-report is not installed")
    found = read(NSIGHT_COMPUTE, CORPUS / "josiahls.ncu-rep")["kernel_counters"]
    for column, values in REAL.values():
        assert found[column].to_list() == pytest.approx(values, rel=1e-4)
    assert found["waves_per_sm"].to_list() == [1 / 384] * 4


@needs_corpus
def test_real_report_without_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib, "import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name))
    )
    with pytest.raises(InputError, match="needs NVIDIA's reader"):
        read(NSIGHT_COMPUTE, CORPUS / "josiahls.ncu-rep")


def test_notices_are_json(tmp_path: Path) -> None:
    found = read_text(NSIGHT_COMPUTE, tmp_path, RAW.read_text() + "bye\n")
    assert json.loads(found["sources"]["notices"][0])[0]["kind"] == "bad_row"


@pytest.mark.parametrize("head", [b"NVR\0\x01", RAW.read_bytes(), DETAILS.read_bytes()[51:]])
def test_chosen_by_its_beginning(head: bytes) -> None:
    assert registry.chosen(head, "x") is NSIGHT_COMPUTE
