"""Profiles of XLA from file to report: the planted runs of fixtures/xla, the small cases, and real captures."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.xla.micro import CASES
from fixtures.xla.reader import planes, streams
from mpg_parsers.xla_profile import XLA_PROFILE
from tests.mpg_cli.running import ROOT, Result, analyze
from tests.parsers.reading import notices, read
from tests.real_traces import CORPUS, NO_CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

FIXTURES = ROOT / "fixtures/xla"
FILES = {"tpu_train": "tpu-host-0.xplane.pb", "gpu_jax": "gpu-host-0.xplane.pb"}
SAME_IN_ALL = ("span_ns", "busy_ns", "idle_ns", "comm_ns", "exposed_comm_ns")
XLA = CORPUS / "xla"
HOST_STEPS = r"^train \d+$"


@cache
def planted(name: str, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report and the truth of a generated profile."""
    truth: dict[str, Any] = json.loads((FIXTURES / name / "truth.json").read_text())
    return analyze(FIXTURES / name / FILES[name], *options).report, truth


def ledger(report: dict[str, Any]) -> Counter[str]:
    """Nanoseconds by cause."""
    found: Counter[str] = Counter()
    for row in report["ledger"]:
        found[row["cause"]] += row["chip_ns"]
    return found


def total(truth: dict[str, Any], part: str) -> Counter[str]:
    """A table of each device, summed over the devices."""
    found: Counter[str] = Counter()
    for device in truth["devices"]:
        found.update(device[part])
    return found


# ------------------------------------------------------------------------------------------------- tpu_train


@pytest.mark.parametrize("core", range(4))
def test_tpu_devices(core: int) -> None:
    """The time in which only a loop or a conditional runs counts as computing here, a feed to the host as a copy."""
    report, truth = planted("tpu_train")
    found, want = report["devices"][core], truth["devices"][core]["all"]
    assert (found["device"], found["name"]) == (core, "TPU v5p")
    assert {key: found[key] for key in SAME_IN_ALL} == {key: want[key] for key in SAME_IN_ALL}
    assert found["compute_ns"] == want["compute_ns"] + want["container_only_ns"]
    assert found["memory_ns"] == want["memory_ns"] + want["outfeed_ns"]
    assert found["exposed_memory_ns"] == want["exposed_memory_ns"] + want["outfeed_ns"]
    assert found["exposed_other_ns"] == found["other_ns"] == want["infeed_ns"]


def test_tpu_steps() -> None:
    """As the Steps lines have them: from the first core that begins one to the last that ends it."""
    report, truth = planted("tpu_train")
    ends = [(min(a for a, _ in step["device"]), max(b for _, b in step["device"])) for step in truth["steps"]]
    window = report["quality"]["windows"][0]
    assert (window["start_ns"], window["end_ns"]) == (ends[0][0], ends[-1][1])
    found = {(step["step"], step["device"]): step["wall_ns"] for step in report["steps"]}
    assert found == {(n, core): b - a for n, (a, b) in enumerate(ends) for core in range(4)}


def test_tpu_steps_of_the_host() -> None:
    """The annotations, which can be asked for."""
    report, truth = planted("tpu_train", "--step-regex", HOST_STEPS)
    found = {(step["step"], step["device"]): (step["wall_ns"], step["busy_ns"]) for step in report["steps"]}
    want = {
        (step["step"], core): (step["wall_ns"], busy)
        for step in truth["steps"]
        for core, busy in enumerate(step["busy_ns"])
    }
    assert found == want


def test_tpu_operations() -> None:
    """By program and operation: how often, its time without what ran inside of it, and what it computes."""
    report, truth = planted("tpu_train")
    found = {f"{op['program']}/{op['op']}": op for op in report["xla"]["operations"]}
    assert found.keys() == truth["devices"][0]["operations"].keys()
    for key, op in found.items():
        same = [device["operations"][key] for device in truth["devices"]]
        want = same[0]["category"], sum(one["count"] for one in same), sum(one["self_ns"] for one in same)
        assert (op["category"], op["count"], op["time_ns"]) == want
        program = truth["programs"][op["program"]]
        assert op["program_id"] == str(program["id"])
        assert op["opaque"] == (op["op"] in program["opaque"])
        assert op["all_flops"] == program["flops_of_op"].get(op["op"], 0)
        matrix = op["category"] == "convolution fusion"
        assert op["flops"] == (None if op["opaque"] else op["all_flops"] if matrix else 0)
    categories = {one["name"]: one["time_ns"] for one in report["xla"]["categories"]}
    assert categories == total(truth, "categories")


def test_tpu_programs() -> None:
    report, truth = planted("tpu_train")
    operations = report["xla"]["operations"]
    for name, want in truth["programs"].items():
        mine = [op for op in operations if op["program"] == name]
        runs = 4 * 6
        assert sum((op["flops"] or 0) * op["count"] for op in mine) == runs * want["matrix_flops"]
        again = sum(op["flops"] * op["count"] for op in mine if op["recompute"])
        assert again == runs * want["recomputed_flops"]
    spent = sum(program["time_ns"] for program in report["xla"]["programs"])
    assert spent == sum(device["module_ns"] for device in truth["devices"])


def test_tpu_causes() -> None:
    """What was planted is what the account says: the rest of the idle time is the host's and launches."""
    report, truth = planted("tpu_train", "--step-regex", HOST_STEPS)
    found, idle, window = ledger(report), total(truth, "idle_causes"), total(truth, "window")
    assert (found["compile"], found["checkpoint"]) == (idle["compile"], idle["checkpoint"])
    waiting = found["communication_wait"] - idle["barrier"]  # for the straggling core, inside of collectives
    assert waiting > 0
    assert found["communication"] + waiting == window["exposed_comm_ns"]
    assert found["memory_copy"] == window["exposed_memory_ns"] + window["outfeed_ns"]
    assert sum(found.values()) == window["span_ns"]
    assert found["input"] >= window["infeed_ns"] + 0.95 * idle["input"]


# --------------------------------------------------------------------------------------------------- gpu_jax


@pytest.mark.parametrize("gpu", range(2))
def test_gpu_devices(gpu: int) -> None:
    report, truth = planted("gpu_jax")
    want = truth["devices"][gpu]["all"]
    figures = {key: report["devices"][gpu][key] for key in want if key != "start_ns"}
    assert figures == {key: value for key, value in want.items() if key != "start_ns"}


def test_gpu_steps() -> None:
    report, truth = planted("gpu_jax")
    found = [(s["step"], s["device"], s["wall_ns"], s["busy_ns"]) for s in report["steps"]]
    want = [
        (s["step"], gpu, s["wall_ns"], busy) for s in truth["steps"] for gpu, busy in enumerate(s["busy_ns"])
    ]
    assert sorted(found) == want


def test_gpu_operations() -> None:
    report, truth = planted("gpu_jax")
    found = {op["op"]: (op["count"], op["time_ns"], op["flops"]) for op in report["xla"]["operations"]}
    want = {
        name: tuple(sum(d["operations"][name][key] for d in truth["devices"]) for key in ("count", "time_ns"))
        for name in truth["devices"][0]["operations"]
    }
    assert found == {name: (*sums, truth["flops_of_op"].get(name, 0)) for name, sums in want.items()}


def test_gpu_collectives() -> None:
    """The wait of a GPU in an all-reduce is what it took longer than the other."""
    report, truth = planted("gpu_jax")
    exposed = total(truth, "window")["exposed_comm_ns"]
    found = ledger(report)
    assert found["communication"] + found["communication_wait"] == exposed


# ------------------------------------------------------------------------------------------- jax_cpu and micro


def assert_no_device(result: Result, *words: str) -> None:
    assert (result.status, result.out) == (3, "")
    assert result.err.startswith("error[no_device_activity]: ")
    for word in words:
        assert word in result.err


def test_a_capture_of_a_cpu() -> None:
    path = FIXTURES / "jax_cpu/host-a.xplane.pb"
    assert_no_device(analyze(path), str(path), "/host:CPU", "XLA's CPU backend")


# a SparseCore is a part of its chip, which is busy while either works: [100, 135) and [140, 195) us
ONE_CHIP = {"sparse_core": [("h0.xplane.pb", 0, 95_000, 90_000, 5_000)]}


@pytest.fixture(scope="module")
def micro(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The report on all small cases at once, and the folder they are in, each in one of its own."""
    folder = tmp_path_factory.mktemp("micro")
    for name, make in CASES.items():
        for path, data in make().files.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_bytes(data)
    return folder, analyze(folder).report


@pytest.mark.parametrize("name", [name for name in CASES if name != "host_only"])
def test_micro(name: str, micro: tuple[Path, dict[str, Any]]) -> None:
    case, (folder, report) = CASES[name](), micro
    devices = [device for device in report["devices"] if device["source"].startswith(f"{folder / name}/")]
    found = [
        (device["source"].removeprefix(f"{folder / name}/"), device["device"],
         device["span_ns"], device["busy_ns"], device["idle_ns"])
        for device in devices
    ]  # fmt: skip
    want = [(path, int(plane[-1]), *figures) for (path, plane), figures in case.devices.items()]
    assert sorted(found) == ONE_CHIP.get(name, sorted(want))
    sources = {device["source"] for device in devices}
    walls = [s["wall_ns"] for s in report["steps"] if s["source"] in sources and s["device"] == 0]
    assert not case.steps or tuple(walls) == case.steps


def test_micro_without_a_device(tmp_path: Path) -> None:
    case = CASES["host_only"]()
    for path, data in case.files.items():
        (tmp_path / path).write_bytes(data)
    assert_no_device(analyze(tmp_path), case.mentions)


def test_runs_of_a_program_serve_as_steps(micro: tuple[Path, dict[str, Any]]) -> None:
    """From the start of a run to the end of its last operation, 50 us later."""
    folder, report = micro
    path = f"{folder}/runs_without_steps/h0.xplane.pb"
    assert [step["wall_ns"] for step in report["steps"] if step["source"] == path] == [50_000] * 5
    said = [w["message"] for w in report["warnings"] if w["kind"] == "steps_from_programs"]
    assert any(text.startswith("no step was marked: the 5 runs of the program jit_f") for text in said)


# ------------------------------------------------------------------------------------------------ real files


def real(name: str) -> Path:
    if not (XLA / name).is_file():
        pytest.skip(NO_CORPUS)
    return XLA / name


@cache
def real_tables(name: str) -> dict[str, pl.DataFrame]:
    return read(XLA_PROFILE, real(name))


def test_tpu_v6e() -> None:
    found = real_tables("tpu_inference_2.xplane.pb")
    assert found["devices"].select("device", "name").rows() == [(n, "TPU v6 Lite") for n in range(4)]
    assert (found["devices"]["bandwidth"] // 10**9).to_list() == [1637] * 4
    steps = found["steps"]
    assert (steps.height, steps["name"][0], steps["name"][99]) == (100, "jit_f 0", "jit_f 99")
    assert steps["step"].to_list() == list(range(100))
    assert steps["start_ns"].is_sorted()
    assert [code for code, _ in notices(found)] == ["clock_corrected"] * 4 + ["steps_from_programs"]
    assert notices(found)[4] == ("steps_from_programs", 100)


def test_tpu_v6e_launches() -> None:
    """Every run of a program has the call that enqueued it."""
    found = real_tables("tpu_inference_2.xplane.pb")
    calls = found["host_events"].drop_nulls("correlation")
    ran = found["device_ops"].drop_nulls("correlation").unique(["device", "correlation"])
    assert found["program_runs"].height == 414
    assert set(ran["correlation"]) <= set(calls["correlation"])
    assert calls.filter(name="DoEnqueueProgram")["correlation"].n_unique() == 414
    assert (calls["kind"] == "runtime").all()


@pytest.mark.parametrize(
    ("name", "devices"),
    [("mi300_jax08_attention", [0]), ("mi300_jax08_gemm", [0]), ("mi300_jax_conv_legacy", [0, 7])],
)
def test_mi300(name: str, devices: list[int]) -> None:
    """Every event of every stream, as the slow reader has them, each with the call that launched it."""
    found = real_tables(f"{name}.xplane.pb")
    ops = found["device_ops"]
    whole = planes(real(f"{name}.xplane.pb").read_bytes())
    want = sorted(
        (int(plane.removeprefix("/device:GPU:")), event["name"], event["start"] // 1000, event["end"] // 1000)
        for plane, about in whole.items()
        if plane.startswith("/device:GPU:")
        for event in streams(about["lines"])
    )
    ours = ops.select("device", "name", "start_ns", end_ns=ops["start_ns"] + ops["dur_ns"]).rows()
    assert sorted(ours) == want
    assert found["devices"]["device"].to_list() == devices
    assert set(found["devices"]["sm_count"]) == {304}
    calls = found["host_events"]["correlation"].drop_nulls().unique()
    assert ops["correlation"].is_in(calls.implode()).all()


@pytest.mark.parametrize(("name", "opaque"), [("vllm_tpu_1", 380), ("vllm_tpu_3", 902)])
def test_vllm(name: str, opaque: int) -> None:
    found = real_tables(f"{name}.trace.json.gz")
    assert found["devices"]["device"].to_list() == [0, 1]
    hidden = found["hlo_ops"].filter("opaque")["hlo"]
    assert set(found["hlo_ops"].filter("opaque")["category"]) == {"custom-call"}
    assert found["device_ops"].filter(found["device_ops"]["hlo"].is_in(hidden.implode())).height <= opaque
    assert set(found["device_ops"]["collective"].drop_nulls()) == {"all-reduce", "all-gather"}


def test_a_profile_that_was_copied_as_text() -> None:
    result = analyze(real("tpu_inference_2_CORRUPT_utf8_mangled.xplane.pb"))
    assert (result.status, result.out) == (3, "")
    assert result.err.startswith("error[corrupt_input]: ")


@pytest.mark.parametrize(
    "name", ["jax_cpu_train8.xplane.pb", "jax_cpu_train8_nopy.xplane.pb", "jax_cpu_train8.trace.json.gz"]
)
def test_real_captures_of_a_cpu(name: str) -> None:
    assert_no_device(analyze(real(name)), name, "/host:CPU", "XLA's CPU backend")


HARD = CORPUS / "hard_inputs"
HARD_CASES = [
    "xplane-gpu-derived-lines", "xplane-tpu-async-ops", "jax-trace-json-gpu", "xplane-host-only", "xplane-truncated",
    "xplane-zero-bytes",
]  # fmt: skip


@pytest.mark.skipif(not HARD.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize("name", HARD_CASES)
def test_hard_inputs(name: str) -> None:
    expected = json.loads((HARD / name / "expected.json").read_text())
    result = analyze(HARD / name / expected["inputs"][0])
    want = expected["expected"]
    if want["outcome"] == "error":
        assert (result.status, result.out) == (3, "")
        assert result.err.startswith(f"error[{want['error']['kind']}]: ")
        assert all(word.lower() in result.err.lower() for word in want["error"]["must_mention"])
        return
    (device,) = result.report["devices"]
    assert {key: device[key] for key in want["devices"][0]} == want["devices"][0]
    steps = [{key: step[key] for key in ("step", "wall_ns", "busy_ns")} for step in result.report["steps"]]
    assert steps == want["steps"]
