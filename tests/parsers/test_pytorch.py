"""Whole files into tables, against a slow reader and against small cases."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpg_parsers.chrome import blocks
from mpg_parsers.errors import InputError
from mpg_parsers.pytorch import PYTORCH
from tests.parsers import oracle
from tests.parsers.traces import LAYOUTS, Bare, document, dumps, event, kernel, notices, parse, tables

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
CORPUS = ROOT / ".." / "shared" / "corpus" / "pytorch"
WHOLE = [
    FIXTURES / "train_2rank" / "rank0.pt.trace.json.gz",
    FIXTURES / "train_2rank" / "rank1.pt.trace.json.gz",
    *(FIXTURES / "micro" / name for name in ("basic.json", "array.json", "graph_replay.json", "rocm.json")),
    *(FIXTURES / "micro" / name for name in ("absolute_times_19_digits.json", "string_times.json")),
    *(FIXTURES / "micro" / name for name in ("legacy_categories.json", "two_devices.json")),
]
REAL = [
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "hta/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
    "param/dlrm_kineto/worker3_step_12.1694128201557.pt.trace.json",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/mi210/gpu_only_trace/gpu_only_trace.json.gz",
    "tracelens/inference/vllm_decode_full/graph_execution.json.gz",
    "generated_torch213_cpu/ddp_gloo_rank0.pt.trace.json.gz",
]


def content(path: Path) -> bytes:
    if not path.exists():
        pytest.skip(f"{path.name} is not in this checkout: real traces lie in ../shared/corpus")
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def use_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    initialise = blocks.BlockReader.__init__
    monkeypatch.setattr(
        blocks.BlockReader, "__init__", lambda self, stream, _: initialise(self, stream, size)
    )


@pytest.mark.parametrize("size", [1000, 10_000, blocks.BLOCK_SIZE])
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_fixtures_against_the_oracle(path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use_blocks(monkeypatch, size)
    found = parse(path, keep_names=True)
    assert oracle.of_tables(found) == oracle.read(content(path))
    assert notices(found) == []


@pytest.mark.parametrize("size", [5000, blocks.BLOCK_SIZE])
@pytest.mark.parametrize("name", REAL)
def test_real_traces_against_the_oracle(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = oracle.read(content(CORPUS / name))
    use_blocks(monkeypatch, size)
    found = parse(CORPUS / name, keep_names=True)
    assert oracle.of_tables(found) == expected
    assert notices(found) == []


# -- a trace is the same in every layout ---------------------------------------------------------------------------

TIMES = st.integers(0, 10**9).map(lambda ns: Bare(f"{ns // 1000}.{ns % 1000:03d}"))
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="@"), max_size=12)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "correlation": st.integers(-(2**63), 2**64),
        "External id": st.none() | st.integers(0, 9) | st.just("12"),
        "Input Dims": st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=3),
        "Concrete Inputs": st.lists(st.sampled_from(["", "1.0", '"', "}, {", '{"ph": 1}']), max_size=3),
        "bytes": st.sampled_from(["1024", 2048, 1.5, True, None]),
        "nested": st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "name": NAMES}), max_size=3),
    },
)
CATEGORIES = st.sampled_from(
    ["kernel", "gpu_memcpy", "cpu_op", "user_annotation", "python_function", "ac2g", None]
)
EVENTS = st.builds(
    lambda cat, name, ts, dur, pid, args: event(cat, name, ts, dur, pid, 7, **args),
    CATEGORIES,
    NAMES,
    TIMES,
    TIMES,
    st.sampled_from([0, 1, "1", 2.0, "Spans", None]),
    ARGS,
)


@settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(EVENTS, min_size=1, max_size=8),
    st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from([100, blocks.BLOCK_SIZE]),
)
def test_layout_does_not_matter(tmp_path: Path, events: list[Any], one: str, other: str, size: int) -> None:
    trace = document(events, distributedInfo={"rank": 3, "world_size": 8})
    with pytest.MonkeyPatch.context() as patch:
        use_blocks(patch, size)
        first, second = (tables(tmp_path, LAYOUTS[name](trace)) for name in (one, other))
    for table in ("host_events", "device_ops", "steps", "sources"):
        assert first[table].equals(second[table]), table


# -- odd values ----------------------------------------------------------------------------------------------------

HOST = event("cpu_op", "aten::mm", 100, 50)
USABLE: dict[str, tuple[object, object, tuple[int, int] | None]] = {
    "integers": (100, 5, (100_000, 5000)),
    "three decimals": (Bare("100.001"), Bare("0.001"), (100_001, 1)),
    "scientific": (Bare("1E2"), Bare("5e-1"), (100_000, 500)),
    "texts": ("100.001", "5", (100_001, 5000)),
    "19 digits": (Bare("1712195495519791.567"), Bare("1.5"), (1_712_195_495_519_791_567, 1500)),
    "minus zero": (Bare("-0"), Bare("-0.0"), (0, 0)),
    "more digits than a nanosecond has": (Bare("100.0014999"), 5, (100_001, 5000)),
    "zero duration": (100, 0, (100_000, 0)),
    "negative duration": (100, -1, None),
    "duration of years": (100, 10**14, None),
    "beyond any double": (Bare("1e400"), 5, None),
    "5000 digits": (Bare("1" * 5000), 5, None),
    "beyond int64 nanoseconds": (10**17, 5, None),
    "no duration": (100, None, None),
    "no start": (None, 5, None),
    "a text that is no number": ("soon", 5, None),
    "null": (Bare("null"), 5, None),
    "true": (Bare("true"), 5, None),
    "an object over several lines": (Bare('{\n"a":\n1}'), 5, None),
}


@pytest.mark.parametrize(("ts", "dur", "expected"), USABLE.values(), ids=USABLE)
def test_times(tmp_path: Path, ts: object, dur: object, expected: tuple[int, int] | None) -> None:
    near = expected[0] // 1000 if expected else 100
    others = [kernel(near, 1, "other"), event("cpu_op", "aten::mm", near, 50)]
    found = tables(tmp_path, document([*others, kernel(ts, dur)]))
    rows = found["device_ops"].filter(name="k").select("start_ns", "dur_ns").rows()
    assert rows == ([expected] if expected else [])
    assert notices(found) == ([] if expected else [("dropped_events", 1)])
    assert found["device_ops"].filter(name="other").height == 1


PLACES = {
    "arguments win": (kernel(1, 2, device=1, stream=3) | {"pid": 9, "tid": 8}, 1, 3),
    "pid and tid": (event("kernel", "k", 1, 2, 4, 20), 4, 20),
    "texts": (event("kernel", "k", 1, 2, "GPU 4", "stream 20"), 4, 20),
    "whole floats": (event("kernel", "k", 1, 2, 4.0, 20.0), 4, 20),
    "arguments as text": (event("kernel", "k", 1, 2, 9, 9, device="1", stream="7"), 1, 7),
    "MTIA": (event("mtia_ccp_events", "k", 1, 2, 1, 5, device=1, stream_id="2"), 1, 2),
    "no arguments": (event("kernel", "k", 1, 2, 1, 5) | {"args": None}, 1, 5),
    "a list for arguments": (event("kernel", "k", 1, 2, 1, 5) | {"args": [1]}, 1, 5),
    "fractions and truths are no numbers": (event("kernel", "k", 1, 2, 1.5, True), 0, None),
    "nothing": ({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}, 0, None),
}


@pytest.mark.parametrize(("item", "device", "stream"), PLACES.values(), ids=PLACES)
def test_device_and_stream(tmp_path: Path, item: dict[str, Any], device: int, stream: int | None) -> None:
    found = tables(tmp_path, document([item]))
    assert found["device_ops"].select("device", "stream").rows() == [(device, stream)]
    assert found["devices"]["device"].to_list() == [device]
    assert notices(found) == []


def test_argument_columns(tmp_path: Path) -> None:
    collective: dict[str, Any] = {
        "correlation": "5", "External id": 0, "grid": [1, 2, 3], "bytes": "4096", "graph node id": 8,
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
        "Group size": 2, "Seq": 9, "In msg nelems": 10, "Out msg nelems": 10, "dtype": "BFloat16",
    }  # fmt: skip
    row = tables(tmp_path, document([kernel(1, 2, **collective)]))["device_ops"].row(0, named=True)
    assert {key: value for key, value in row.items() if value is not None} == {
        "device": 0, "stream": 7, "start_ns": 1000, "dur_ns": 2000, "kind": "kernel", "name": "k",
        "correlation": 5, "grid": "[1, 2, 3]", "bytes": 4096, "graph_node": 8, "collective": "allreduce",
        "group": "0", "group_ranks": "[0, 1]", "group_size": 2, "seq": 9, "in_elements": 10, "out_elements": 10,
        "element_type": "BFloat16",
    }  # fmt: skip


@pytest.mark.parametrize("phase", ["b", "e", "n", "C", "i", "s", "f", "t", "", None, 7])
def test_device_records_in_a_phase_without_a_duration(tmp_path: Path, phase: object) -> None:
    odd = kernel(5, 1) | {"ph": phase}
    found = tables(tmp_path, document([kernel(1, 2), odd, odd]))
    assert notices(found) == [("dropped_events", 2)]
    assert found["device_ops"].height == 1


def test_odd_elements_between_events(tmp_path: Path) -> None:
    found = tables(tmp_path, document([None, kernel(1, 2), {}, event(None, "no category", 1, 2), None]))
    assert notices(found) == []
    assert found["device_ops"].height == 1
    assert found["sources"]["events"][0] == 5


def test_device_work_without_a_category(tmp_path: Path) -> None:
    lost = event(None, "k", 5, 1, device=0, stream=7)
    assert notices(tables(tmp_path, document([kernel(1, 2), lost]))) == [("dropped_events", 1)]


def test_far_off_host_events(tmp_path: Path) -> None:
    now = 1_700_000_000_000_000
    events = [event("cpu_op", "a", now + i, 5) for i in range(5)]
    events += [
        event("cpu_op", "a", 0, 5),
        event("cpu_op", "a", 4_100_000_000_000_000, 5),
        kernel(now, 3),
        kernel(1, 3),
    ]
    found = tables(tmp_path, document(events))
    assert notices(found) == [("dropped_events", 1), ("dropped_events", 2)]
    assert found["host_events"].height == 5
    assert found["sources"].select("first_ns", "last_ns").row(0) == (now * 1000, now * 1000 + 9000)


def test_host_events_that_last_for_years_were_still_open(tmp_path: Path) -> None:
    events = [
        event("cpu_op", "a", 1, 5),
        event("cpu_op", "b", 2, 10**14),
        event("cpu_op", "c", 3, -1),
        kernel(4, 1),
    ]
    found = tables(tmp_path, document(events))
    assert found["host_events"].sort("start_ns")["dur_ns"].to_list() == [5000, None, None]
    assert found["sources"]["last_ns"][0] == 6000
    assert notices(found) == []


def test_small_relative_times_stay(tmp_path: Path) -> None:
    found = tables(tmp_path, document([event("cpu_op", "a", 0, 5), kernel(0, 1), kernel(3, 1)]))
    assert notices(found) == []
    assert found["device_ops"]["start_ns"].to_list() == [0, 3000]


# -- vendors and versions --------------------------------------------------------------------------------------------


def test_several_devices_in_one_process(tmp_path: Path) -> None:
    found = tables(
        tmp_path, document([kernel(1, 5, device=0), kernel(1, 5, device=1), kernel(7, 1, device=1)])
    )
    assert found["devices"]["device"].to_list() == [0, 1]
    assert found["device_ops"].group_by("device").len().sort("device").rows() == [(0, 1), (1, 2)]


def test_amd_properties_are_not_taken_by_index(tmp_path: Path) -> None:
    alike = [{"id": i, "name": "AMD Instinct MI300X", "numSms": 304} for i in range(2)]
    found = tables(tmp_path, document([kernel(1, 5, device=9)], deviceProperties=alike))
    assert found["devices"].select("device", "name", "sm_count").rows() == [(9, "AMD Instinct MI300X", 304)]
    mixed = [alike[0], {"id": 1, "name": "AMD Instinct MI250X"}]
    found = tables(tmp_path, document([kernel(1, 5, device=9)], deviceProperties=mixed))
    assert found["devices"]["name"].to_list() == [None]


def test_intel(tmp_path: Path) -> None:
    events = [
        event("xpu_runtime", "zeCommandListAppendLaunchKernel", 1, 1, correlation=3),
        event("kernel", "gemm_kernel", 2, 5, 0, 1, device=0, correlation=3),
        event("gpu_memcpy", "M2D", 8, 1, 0, 1, device=0, bytes=10),
    ]
    found = tables(tmp_path, document(events))
    assert found["device_ops"]["kind"].to_list() == ["kernel", "memcpy"]
    assert found["host_events"]["kind"].to_list() == ["runtime"]


FOREIGN = {
    "Gaudi": event("hpu_op", "gemm", 1, 2),
    "unknown category on a stream": event("gcu_kernel", "gemm", 1, 2, device=0, stream=1),
}


@pytest.mark.parametrize("item", FOREIGN.values(), ids=FOREIGN)
def test_accelerators_that_are_not_understood(tmp_path: Path, item: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=item["cat"]) as caught:
        tables(tmp_path, document([HOST, item]))
    assert caught.value.kind == "unsupported_accelerator"
    found = tables(tmp_path, document([HOST, item, kernel(110, 2)]))
    assert notices(found) == [("dropped_events", 1)]
    assert item["cat"] in found["sources"]["notices"][0]


def test_unknown_categories_on_the_host_are_fine(tmp_path: Path) -> None:
    found = tables(
        tmp_path,
        document([event("my_ranges", "a", 1, 2), event("cuda_event", "e", 1, 2, device=0, stream=7)]),
    )
    assert notices(found) == []
    assert found["device_ops"].is_empty()


def metadata(what: str, value: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "ts": 0, "args": {"name": value}}


@pytest.mark.parametrize(
    ("process", "word"),
    [("/device:GPU:0", "JAX"), ("/host:CPU", "JAX"), ("Ascend Hardware", "Ascend")],
)
def test_other_producers(tmp_path: Path, process: str, word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        tables(tmp_path, document([metadata("process_name", process), event(None, "op", 1, 2)]))
    assert caught.value.kind == "unsupported_format"


def test_autograd_profiler_of_2019(tmp_path: Path) -> None:
    events = [
        {"name": "mm", "ph": "X", "ts": 1.5, "dur": 9.0, "tid": 3, "pid": "CPU functions", "args": {}},
        {"name": "mm", "ph": "X", "ts": 4.25, "dur": 2.0, "tid": 1, "pid": "CUDA functions", "args": {}},
    ]
    found = tables(tmp_path, dumps(events).encode())
    columns = ("device", "stream", "kind", "name", "start_ns", "dur_ns")
    assert found["device_ops"].select(columns).rows() == [(1, None, "kernel", "mm", 4250, 2000)]
    assert found["host_events"].select("thread", "kind", "start_ns").rows() == [(3, "op", 1500)]


LAUNCH_ESTIMATES = {  # (as written, blocks per SM; as written, occupancy)
    "decimals": (135.515152, 135.515152, 63, 63.0),
    "a whole number": (8, 8.0, 0, 0.0),
    "texts": ("0.3", 0.3, "25", 25.0),
    "infinite": ("inf", None, "inf", None),
    "no numbers": ([1], None, True, None),
    "impossible": (-1, None, 101, None),
    "null": (None, None, None, None),
}


@pytest.mark.parametrize("written", LAUNCH_ESTIMATES.values(), ids=LAUNCH_ESTIMATES)
def test_launch_estimates(tmp_path: Path, written: tuple[object, float | None, object, float | None]) -> None:
    blocks, blocks_per_sm, percent, occupancy = written
    args = {"blocks per SM": blocks, "est. achieved occupancy %": percent}
    found = tables(tmp_path, document([kernel(1, 2, **args), kernel(9, 2)]))["device_ops"]
    rows = found.select("blocks_per_sm", "occupancy").rows()
    assert rows == [(blocks_per_sm, occupancy), (None, None)]


def test_names_of_2021(tmp_path: Path) -> None:
    events = [
        event("Operator", "aten::add", 1, 2, **{"external id": 4, "Input dims": [[1]]}),
        event("Kernel", "k", 2, 1, 0, "stream 7", **{"external id": 4, "device": 0, "stream": 7}),
        event("Memcpy", "Memcpy HtoD", 4, 1, 0, "stream 7", device=0, stream=7),
        event("Memset", "Memset (Device)", 6, 1, 0, "stream 7", device=0, stream=7),
        event("Runtime", "cudaLaunchKernel", 1, 1, correlation=1),
    ]
    found = tables(tmp_path, document(events))
    assert found["device_ops"]["kind"].to_list() == ["kernel", "memcpy", "memset"]
    assert found["device_ops"]["external_id"].to_list() == [4, None, None]
    host = found["host_events"].sort("kind").select("kind", "external_id", "input_dims")
    assert host.rows() == [("op", 4, "[[1]]"), ("runtime", None, None)]


# -- names, containers, memory -----------------------------------------------------------------------------------------


def test_private_names(tmp_path: Path) -> None:
    trace = document(
        [event("python_function", "/home/ann/train.py(3): f", 1, 2), kernel(1, 2)], host_name="ann-laptop"
    )
    found = tables(tmp_path, trace)
    assert found["host_events"]["name"].to_list() == ["train.py(3): f"]
    assert found["sources"]["host"].to_list() == [None]
    assert found["sources"]["node"].to_list() == ["95808524109a"]
    kept = tables(tmp_path, trace, keep_names=True)
    assert kept["host_events"]["name"].to_list() == ["/home/ann/train.py(3): f"]
    assert kept["sources"]["host"].to_list() == ["ann-laptop"]


GZIP: dict[str, tuple[Callable[[bytes], bytes], list[str]]] = {
    "whole": (lambda packed: packed, []),
    "zero padding": (lambda packed: packed + bytes(600), []),
    "garbage behind it": (lambda packed: packed + b"more" * 9, ["repaired_input"]),
    "without its trailer": (lambda packed: packed[:-8], ["truncated_input"]),
}


@pytest.mark.parametrize(("damage", "expected"), GZIP.values(), ids=GZIP)
def test_gzip(tmp_path: Path, damage: Callable[[bytes], bytes], expected: list[str]) -> None:
    packed = gzip.compress(dumps(document([kernel(i, 1, f"k{i}") for i in range(50)])).encode())
    found = tables(tmp_path, damage(packed))
    assert [kind for kind, _ in notices(found)] == expected
    assert found["device_ops"].height == 50


def test_batches_come_as_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpg_parsers.pytorch.FLUSH_ROWS", 100)
    use_blocks(monkeypatch, 2000)
    events = [event("cpu_op", f"op{i}", i, 1) for i in range(1000)]
    path = tmp_path / "trace.json"
    path.write_text(dumps(document([*events, kernel(5, 1)])))
    found = parse(path)
    assert found["host_events"]["name"].to_list() == [f"op{i}" for i in range(1000)]
    assert found["sources"]["events"][0] == 1001


def test_progress_goes_up_to_the_stored_size(tmp_path: Path) -> None:
    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import expand

    path = tmp_path / "trace.json"
    path.write_text(dumps(document([kernel(1, 2)])))
    seen: list[int] = []
    with expand([str(path)]) as expansion:
        list(PYTORCH.parse(expansion.sources[0], ParseOptions(progress=seen.append)))
    assert seen[-1] == path.stat().st_size


def test_rows_conform_to_the_canonical_tables(tmp_path: Path) -> None:
    from mpg_parsers.tables import TABLES

    found = tables(tmp_path, document([HOST, kernel(1, 2), event("user_annotation", "ProfilerStep#1", 0, 9)]))
    for name, frame in found.items():
        assert frame.schema == TABLES[name].schema(), name
    assert {name for name, frame in found.items() if frame.height} == set(PYTORCH.tables)


def test_source_row(tmp_path: Path) -> None:
    trace = document(
        [HOST, kernel(120, 2)],
        distributedInfo={"rank": "3", "world_size": 8},
        cuda_runtime_version=12040,
        baseTimeNanoseconds=17,
    )
    row = tables(tmp_path, trace)["sources"].row(0, named=True)
    expected = {
        "format": "pytorch", "format_version": "1", "framework": "PyTorch (CUDA 12.4)", "rank": 3, "world_size": 8,
        "base_ns": 17, "first_ns": 100_000, "last_ns": 150_000, "events": 2,
    }  # fmt: skip
    assert {key: row[key] for key in expected} == expected
    assert json.loads(row["notices"]) == []


def test_steps_are_counted_once(tmp_path: Path) -> None:
    step = event("user_annotation", "ProfilerStep#12", 1, 8)
    others = [step | {"name": "ProfilerStep#x"}, step | {"cat": "gpu_user_annotation"}, step | {"dur": -1}]
    found = tables(tmp_path, document([step, step, *others, kernel(2, 3)]))
    assert found["steps"].select("step", "start_ns", "end_ns").rows() == [(12, 1000, 9000)]
    assert isinstance(found["steps"], pl.DataFrame)
