"""rocprofv3's JSON: small documents with known rows, a slow oracle for a real one."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpg_parsers import registry, rocprofv3
from mpg_parsers.errors import InputError
from mpg_parsers.rocprofv3 import ROCPROFV3
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices, read, read_text

if TYPE_CHECKING:
    from pathlib import Path

REAL = ROOT.parent / "shared/corpus/nsight/amd/rocprofv3_908_results.json.gz"
CPU, GPU0, GPU1 = 37944, 37946, 37947
KINDS = ["NONE", "HIP_RUNTIME_API", "MARKER_CORE_API", "MEMORY_COPY", "KERNEL_DISPATCH", "RCCL_API"]
OPERATIONS = {"HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync"], "RCCL_API": ["ncclAllReduce"]}


def agent(handle: int, kind: int, node: int, **more: Any) -> dict[str, Any]:
    return {
        "id": {"handle": handle},
        "type": kind,
        "node_id": node,
        "name": "gfx950",
        "product_name": "",
        **more,
    }


def kernel(
    start: int, end: int, *, gpu: int = GPU0, kernel_id: int = 1, stream: int | None = 7, **more: Any
) -> dict[str, Any]:
    info = {
        "agent_id": {"handle": gpu}, "queue_id": {"handle": 3}, "kernel_id": kernel_id, "dispatch_id": 1,
        "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 1000, "y": 2, "z": 1},
    }  # fmt: skip
    streams = {} if stream is None else {"stream_id": {"handle": stream}}
    return call(start, end, 4, 2, 11) | {"dispatch_info": info} | streams | more


def copy(start: int, end: int, source: int, target: int, **more: Any) -> dict[str, Any]:
    ends = {"src_agent_id": {"handle": source}, "dst_agent_id": {"handle": target}}
    return call(start, end, 3, 2, 12) | ends | {"bytes": 4096, "stream_id": {"handle": 7}} | more


def call(
    start: int, end: int, kind: int, operation: int, correlation: int, thread: int = 42
) -> dict[str, Any]:
    return {
        "size": 1, "kind": kind, "operation": operation, "thread_id": thread,
        "start_timestamp": start, "end_timestamp": end, "correlation_id": {"internal": correlation, "external": 0},
    }  # fmt: skip


def process(
    pid: int = 42, messages: dict[int, str] | None = None, **records: list[dict[str, Any]]
) -> dict[str, Any]:
    uuid = {
        "bytes": {f"value{index}": value for index, value in enumerate([203, 20, 23, 176, 50, 70, 245, 79])}
    }
    banks = {"mem_banks": [{"size_in_bytes": 1 << 38}], "cu_count": 256, "max_engine_clk_fcompute": 2200}
    return {
        "metadata": {"pid": pid, "node": {"hostname": "gpu7.example"}, "command": ["/home/ann/train.py"]},
        "agents": [
            agent(CPU, 1, 0, product_name="EPYC"),
            agent(GPU0, 2, 2, product_name="AMD Instinct MI350X", uuid=uuid, **banks),
            agent(GPU1, 2, 3),
        ],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": OPERATIONS.get(kind, [])} for kind in KINDS],
            "marker_api": [{"key": key, "value": value} for key, value in (messages or {}).items()],
        },
        "kernel_symbols": [
            {"kernel_id": 0, "kernel_name": "", "formatted_kernel_name": ""},
            {"kernel_id": 1, "kernel_name": "_Z4gemmPf.kd", "formatted_kernel_name": "gemm(float*)"},
            {"kernel_id": 2, "kernel_name": "copy.kd", "formatted_kernel_name": ""},
            {"kernel_id": 3, "kernel_name": "x", "formatted_kernel_name": "add(int) [clone .kd]"},
        ],
        "buffer_records": records,
    }  # fmt: skip


def document(*processes: dict[str, Any]) -> str:
    return json.dumps({"rocprofiler-sdk-tool": list(processes)})


def parsed(folder: Path, *processes: dict[str, Any], **options: bool) -> dict[str, pl.DataFrame]:
    return read_text(ROCPROFV3, folder, document(*processes), **options)


def test_kernels(tmp_path: Path) -> None:
    found = parsed(
        tmp_path, process(kernel_dispatch=[kernel(1000, 1500), kernel(1500, 1600, gpu=GPU1, kernel_id=2)])
    )
    ops = found["device_ops"].select(
        "process", "device", "stream", "start_ns", "dur_ns", "kind", "name", "correlation", "grid", "block"
    )
    assert ops.rows() == [
        (None, 2, 7, 1000, 500, "kernel", "gemm(float*)", 11, "[4, 2, 1]", "[256, 1, 1]"),
        (None, 3, 7, 1500, 100, "kernel", "copy", 11, "[4, 2, 1]", "[256, 1, 1]"),
    ]
    assert found["devices"].sort("device").to_dicts()[0] == {
        "source": None, "process": None, "device": 2, "uuid": "GPU-4ff54632b01714cb", "name": "AMD Instinct MI350X",
        "memory_bytes": 1 << 38, "sm_count": 256, "compute_capability": None, "bandwidth": None,
        "clock_hz": 2_200_000_000,
        "peak_flops": None,
    }  # fmt: skip
    assert found["devices"].sort("device").to_dicts()[1]["name"] == "gfx950"
    source = found["sources"].row(0, named=True)
    assert (source["format"], source["events"], source["first_ns"], source["last_ns"]) == (
        "rocprofv3",
        2,
        1000,
        1600,
    )
    assert (source["rank"], source["base_ns"], source["host"]) == (None, None, None)
    assert source["node"] is not None
    assert notices(found) == []


@pytest.mark.parametrize(
    ("kernel_id", "name"),
    [(1, "gemm(float*)"), (2, "copy"), (3, "add(int)"), (0, "kernel 0"), (9, "kernel 9")],
)
def test_kernel_names(tmp_path: Path, kernel_id: int, name: str) -> None:
    found = parsed(tmp_path, process(kernel_dispatch=[kernel(1, 2, kernel_id=kernel_id)]))
    assert found["device_ops"]["name"].to_list() == [name]


@pytest.mark.parametrize(
    ("streams", "want"),
    [([5, 6], [5, 6]), ([0, 6], [0, 6]), ([0, 0], [3, 3]), ([None, None], [3, 3])],
)
def test_streams_or_else_queues(tmp_path: Path, streams: list[int | None], want: list[int]) -> None:
    found = parsed(
        tmp_path, process(kernel_dispatch=[kernel(n + 1, n + 2, stream=s) for n, s in enumerate(streams)])
    )
    assert found["device_ops"]["stream"].to_list() == want


@pytest.mark.parametrize(
    ("source", "target", "device", "name"),
    [
        (CPU, GPU0, 2, "Memcpy HtoD (Host -> Device)"),
        (GPU1, CPU, 3, "Memcpy DtoH (Device -> Host)"),
        (GPU1, GPU1, 3, "Memcpy DtoD (Device -> Device)"),
        (GPU1, GPU0, 3, "Memcpy PtoP (Device -> Device)"),
        (CPU, CPU, None, None),
    ],
)
def test_copies(tmp_path: Path, source: int, target: int, device: int | None, name: str | None) -> None:
    found = parsed(tmp_path, process(memory_copy=[copy(10, 30, source, target)]))
    rows = (
        found["device_ops"]
        .select("device", "name", "kind", "dur_ns", "bytes", "correlation", "stream")
        .rows()
    )
    assert rows == ([] if device is None else [(device, name, "memcpy", 20, 4096, 12, 7)])
    assert notices(found) == []


def test_host_side(tmp_path: Path) -> None:
    messages = {1: "ProfilerStep#3", 2: "aten::mm, op_id = 3, sizes = [[2, 2]]", 4: "forward /home/ann/x.py"}
    found = parsed(
        tmp_path,
        process(
            messages=messages,
            hip_api=[
                call(10, 20, 1, 0, 11),
                call(30, 25, 1, 1, 12),
                call(40, 50, 1, 9, 0),
                call(40, 50, 99, 0, 0),
            ],
            rccl_api=[call(60, 70, 5, 0, 13)],
            hsa_api=[call(60, 70, 1, 0, 13)],
            marker_api=[
                call(5, 100, 2, 0, 1),
                call(6, 90, 2, 0, 2),
                call(7, 7, 2, 0, 4),
                call(8, 9, 2, 0, 5),
            ],
        ),
    )
    rows = (
        found["host_events"]
        .select("kind", "name", "process", "thread", "start_ns", "dur_ns", "correlation")
        .rows()
    )
    assert rows == [
        ("runtime", "hipLaunchKernel", 42, 42, 10, 10, 11),
        ("runtime", "hipMemcpyAsync", 42, 42, 30, None, 12),
        ("runtime", "operation 9 of kind 1", 42, 42, 40, 10, None),
        ("runtime", "operation 0 of kind 99", 42, 42, 40, 10, None),
        ("runtime", "ncclAllReduce", 42, 42, 60, 10, 13),
        ("annotation", "ProfilerStep#3", 42, 42, 5, 95, 1),
        ("op", "aten::mm", 42, 42, 6, 84, 2),
        ("annotation", "forward x.py", 42, 42, 7, 0, 4),
    ]
    assert found["steps"].select("step", "name", "start_ns", "end_ns").rows() == [
        (3, "ProfilerStep#3", 5, 100)
    ]


def test_operators_of_pytorch(tmp_path: Path) -> None:
    messages = {
        1: "aten::mm, seq = 7, op_id = 3, sizes = [[2, 2], [2, 2]]",
        2: "aten::add",
        3: "lr = 3, seq",
        4: "a, seq = x",
    }
    found = parsed(
        tmp_path, process(messages=messages, marker_api=[call(n, n + 1, 2, 0, n) for n in messages])
    )
    columns = ("kind", "name", "sequence", "external_id", "input_dims")
    assert found["host_events"].select(columns).rows() == [
        ("op", "aten::mm", 7, 3, "[[2, 2], [2, 2]]"),
        ("op", "aten::add", None, None, None),
        ("annotation", "lr = 3, seq", None, None, None),
        ("annotation", "a, seq = x", None, None, None),
    ]


def test_steps_by_name(tmp_path: Path) -> None:
    messages = {1: "step 1", 2: "step 2", 3: "forward"}
    markers = [call(10 * n, 10 * n + 9, 2, 0, n) for n in messages]
    found = parsed(tmp_path, process(messages=messages, marker_api=markers, kernel_dispatch=[kernel(1, 2)]))
    assert found["steps"].select("name", "start_ns", "end_ns").rows() == [
        ("step 1", 10, 19),
        ("step 2", 20, 29),
    ]


def test_steps_of_several_processes(tmp_path: Path) -> None:
    """Process 44 has no device work."""
    work = {
        "kernel_dispatch": [kernel(1, 2)],
        "messages": {1: "step 1"},
        "marker_api": [call(10, 19, 2, 0, 1)],
    }
    idle = work | {"kernel_dispatch": []}
    alone = parsed(tmp_path, process(42, **work))
    assert alone["steps"].select("process", "name").rows() == [(None, "step 1")]
    several = parsed(tmp_path, process(42, **work), process(43, **work), process(44, **idle))
    assert several["steps"].select("process", "name").rows() == [(42, "step 1"), (43, "step 1")]
    neither = parsed(tmp_path, process(42, kernel_dispatch=[kernel(1, 2)]), process(44, **idle))
    assert (neither["steps"].height, notices(neither)) == (0, [("steps_elsewhere", 1)])


def test_two_processes(tmp_path: Path) -> None:
    """Their correlation ids are the same; so is the GPU."""
    work = {"kernel_dispatch": [kernel(1, 2)], "hip_api": [call(1, 2, 1, 0, 11)]}
    found = parsed(tmp_path, process(42, **work), process(43, **work))
    assert found["device_ops"].select("process", "device", "correlation").rows() == [
        (process, 2, (process << 32) + 11) for process in (42, 43)
    ]
    assert found["host_events"].select("process", "correlation").rows() == [
        (process, (process << 32) + 11) for process in (42, 43)
    ]
    assert found["devices"].select("process", "device").rows() == [(42, 2), (43, 2)]


def test_what_cannot_be(tmp_path: Path) -> None:
    bad = [kernel(0, 5), kernel(9, 5), kernel(5, 9, gpu=CPU), kernel(5, 9, gpu=1), kernel(5, 1 << 62)]
    found = parsed(tmp_path, process(kernel_dispatch=[*bad, kernel(5, 5)], hip_api=[call(0, 9, 1, 0, 1)]))
    assert found["device_ops"].select("start_ns", "dur_ns").rows() == [(5, 0)]
    assert notices(found) == [("dropped_events", 5), ("dropped_events", 1)]


def test_host_name_if_wanted(tmp_path: Path) -> None:
    found = parsed(
        tmp_path, process(messages={1: "/home/ann/x.py"}, marker_api=[call(1, 2, 2, 0, 1)]), keep_names=True
    )
    assert (found["sources"]["host"][0], found["host_events"]["name"][0]) == (
        "gpu7.example",
        "/home/ann/x.py",
    )


def test_chunks_and_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = document(
        process(
            kernel_dispatch=[kernel(n, n + 1) for n in range(1, 8)],
            hip_api=[call(n, n + 1, 1, 0, n) for n in range(1, 8)],
        )
    )
    whole = read_text(ROCPROFV3, tmp_path, text)
    monkeypatch.setattr(rocprofv3, "CHUNK", 3)
    cut = read_text(ROCPROFV3, tmp_path, gzip.compress(text.encode()))
    for name in ("device_ops", "host_events", "devices"):
        assert whole[name].equals(cut[name])
    assert whole["device_ops"]["start_ns"].to_list() == list(range(1, 8))


WHOLE = document(process(kernel_dispatch=[kernel(1, 2)]))


def starting_at(time: str) -> bytes:
    return WHOLE.replace('"start_timestamp": 1', f'"start_timestamp": {time}').encode()


REFUSED: dict[str, tuple[bytes, str]] = {
    "cut": (WHOLE[:-20].encode(), "truncated_input"),
    "cut gzip": (gzip.compress(WHOLE.encode())[:-30], "truncated_input"),
    "another shape": (b'{"rocprofiler-sdk-tool": {}}', "corrupt_input"),
    "no pid": (b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "corrupt_input"),
    "a text for a time": (starting_at('"1"'), "corrupt_input"),
    "a fraction for a time": (starting_at("1.5"), "corrupt_input"),
    "a time beyond 64 bits": (starting_at(str(1 << 64)), "corrupt_input"),
    "no device": (WHOLE.replace('"agent_id"', '"agent"').encode(), "corrupt_input"),
    "nesting": (b'{"rocprofiler-sdk-tool": [{"x": ' + b"[" * 100_000, "corrupt_input"),
    "more after the end": (WHOLE.encode() + b"{}", "corrupt_input"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "kind"), REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path: Path, content: bytes, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        read_text(ROCPROFV3, tmp_path, content)
    assert caught.value.kind == kind
    assert caught.value.hint


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocprofv3, "MAX_TEXT", 1 << 20)
    with pytest.raises(InputError, match="more than 1 MiB of JSON") as caught:
        read_text(ROCPROFV3, tmp_path, WHOLE + " " * (1 << 20))
    assert caught.value.kind == "unsupported_format"


@pytest.mark.parametrize("head", [b"", b"{}", b'{"traceEvents": []}', b'[{"rocprofiler-sdk-tool": []}]'])
def test_sniff_gives_a_reason(head: bytes) -> None:
    assert ROCPROFV3.sniff(head, "x.json")


DAMAGE = document(
    process(
        messages={1: "step"},
        kernel_dispatch=[kernel(1, 2)],
        memory_copy=[copy(1, 2, CPU, GPU0)],
        hip_api=[call(1, 2, 1, 0, 1)],
        marker_api=[call(1, 2, 2, 0, 1)],
    )
).encode()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(30, len(DAMAGE) - 1),
    length=st.integers(0, 4),
    new=st.sampled_from([b"", b"9" * 19, b"-", b"\xff", b'"', b"null", b"{}", b"1e9", b"\\ud800"]),
)
def test_damage_is_an_error_or_rows(tmp_path: Path, at: int, length: int, new: bytes) -> None:
    """Never another exception than InputError; and what comes out has the types of the tables."""
    try:
        read_text(ROCPROFV3, tmp_path, DAMAGE[:at] + new + DAMAGE[at + length :])
    except InputError as error:
        assert error.hint  # noqa: PT017 - one of two outcomes


# -- a real one -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL.is_file(), reason=f"no real file at {REAL}")
def test_real() -> None:
    """Against the plain reading of the whole JSON."""
    whole = json.loads(gzip.decompress(REAL.read_bytes()))["rocprofiler-sdk-tool"][0]
    names = {symbol["kernel_id"]: symbol["formatted_kernel_name"] for symbol in whole["kernel_symbols"]}
    records = whole["buffer_records"]["kernel_dispatch"]
    found = read(ROCPROFV3, REAL)
    ops = found["device_ops"]
    assert ops.height == len(records) == 43_915
    spans = sorted((record["start_timestamp"], record["end_timestamp"]) for record in records)
    assert sorted(ops.select("start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns")).rows()) == spans
    union = reached = 0
    for start, end in spans:
        union += max(0, end - max(start, reached))
        reached = max(reached, end)
    assert union == 4_233_112_334
    times: Counter[str] = Counter()
    for record in records:
        times[names[record["dispatch_info"]["kernel_id"]]] += (
            record["end_timestamp"] - record["start_timestamp"]
        )
    assert ops["dur_ns"].sum() == sum(times.values())
    by_name = ops.group_by("name").agg(pl.col("dur_ns").sum())
    assert dict(by_name.iter_rows()) == times
    assert times.most_common(1)[0][0] == "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
    assert found["devices"].select("device", "uuid", "name", "sm_count").rows() == [
        (2, "GPU-4ff54632b01714cb", "AMD Instinct MI350X", 256)
    ]
    assert notices(found) == []


def test_chosen_by_its_beginning() -> None:
    assert registry.chosen(b'{\n "rocprofiler-sdk-tool": [', "x") is ROCPROFV3
