from __future__ import annotations

import json
import lzma
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.errors import InputError
from mpg_parsers.nsys_jax import NSYS_JAX
from mpg_parsers.nsysjax import packing, ranges
from mpg_parsers.registry import ParseOptions
from mpg_parsers.source import Source, expand
from mpg_parsers.xla.hlo import messages
from tests.parsers.archives import put, zip_of
from tests.parsers.nsys_jax_archives import (
    PUSHPOP,
    ROWS,
    STEP,
    combined,
    devices,
    files,
    later_trace,
    parquet,
    threads,
    trace,
)
from tests.parsers.reading import notices, read
from tests.real_traces import CORPUS

REAL = [CORPUS / f"xla/nsys_jax/pax_fsdp4_4proc_proc{n}.zip" for n in (0, 1)]
needs_corpus = pytest.mark.skipif(
    not REAL[0].exists(), reason=f"the corpus of real traces is not at {CORPUS}"
)
TRACE = "nvtx_gpu_proj_trace/trace.parquet"
BEFORE = "dump/module_0007.jit_step.before_optimizations.hlo.pb.xz"


def parsed(tmp_path, content=None, **options):
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of(files() if content is None else content))
    return read(NSYS_JAX, path, **options)


def rows(found, table, *columns):
    return found[table].select(columns).rows()


def test_leaves_become_device_ops(tmp_path):
    found = parsed(tmp_path)
    columns = ("device", "start_ns", "dur_ns", "kind", "name", "collective", "correlation")
    assert rows(found, "device_ops", *columns) == [
        (1, 10, 5, "kernel", "TSL:XlaCompile:#module=jit_step,program_id=7#", None, 8),
        (1, 100, 10, "kernel", "fusion.1", None, 2),
        (1, 105, 20, "kernel", "all-gather-start", "all-gather", 3),
        (1, 130, 5, "memcpy", "copy.3", None, 6),
        (1, 140, 20, "kernel", "custom-call.2", None, 7),
        (1, 200, 10, "kernel", "fusion.1", None, 12),
    ]
    assert rows(found, "hlo_ops", "hlo", "program_id", "program", "name", "framework_op") == [
        (0, "7", "jit_step", "fusion.1", None),
        (1, "7", "jit_step", "all-gather-start", "jit(f)/gather[axes=(0,)]"),
        (2, "7", "jit_step", "copy.3", None),
        (3, "7", "jit_step", "custom-call.2", "jit(f)/dot"),
    ]
    assert found["device_ops"]["hlo"].to_list() == [None, 0, 1, 2, 3, 0]


def test_runs_steps_and_devices(tmp_path):
    found = parsed(tmp_path)
    assert rows(found, "program_runs", "device", "program_id", "name", "run", "start_ns", "end_ns") == [
        (1, "7", "jit_step", 1, 100, 160),
        (1, "7", "jit_step", 11, 200, 250),
    ]
    assert rows(found, "steps", "process", "step", "start_ns", "end_ns") == [
        (None, 0, 100, 160),
        (None, 1, 200, 250),
    ]
    assert found["devices"].drop("source", "process", "peak_flops", strict=False).rows(named=True) == [
        {
            "device": 1,
            "uuid": "gpu-uuid",
            "name": "NVIDIA A100",
            "memory_bytes": 40,
            "sm_count": 108,
            "compute_capability": "8.0",
            "bandwidth": 1555,
            "clock_hz": 1410,
        }
    ]


def test_sources(tmp_path):
    found = parsed(tmp_path, files(3))
    (row,) = found["sources"].rows(named=True)
    assert (row["format"], row["framework"]) == ("nsys-jax", "nsys-jax (Nsight Systems 2024.4.1)")
    assert (row["rank"], row["world_size"], row["host"], row["base_ns"]) == (3, None, None, None)
    assert (row["first_ns"], row["last_ns"], row["events"]) == (0, 210, 13)
    assert len(row["node"]) == 12
    assert parsed(tmp_path, keep_names=True)["sources"]["host"].to_list() == ["node17"]
    everything = json.dumps([frame.rows() for frame in parsed(tmp_path).values()])
    assert not any(private in everything for private in ("/home", "node17", "SECRET"))


def test_host_ranges(tmp_path):
    found = parsed(tmp_path)
    assert rows(found, "host_events", "process", "thread", "start_ns", "dur_ns", "kind", "name", "correlation") == [
        (9, 42, 0, 40, "runtime", "TSL:XlaCompile:#module=jit_step,program_id=7#", 8),
        (9, 42, 50, 3, "runtime", "TSL:Thunk:#hlo_op=fusion.1#", 2),
        (9, 43, 60, 30, "annotation", "load.py", None),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "parquet", "none"])
def test_forms_of_the_list_of_host_ranges(tmp_path, form):
    content = files()
    del content["report_nvtx_pushpop_trace.csv.xz"]
    if form == "csv":
        content["report_nvtx_pushpop_trace.csv"] = PUSHPOP.encode()
    if form == "parquet":
        listed = pl.read_csv(PUSHPOP.encode()).drop("PID", "Lvl")
        content["report_nvtx_pushpop_trace.parquet"] = parquet(listed)
    found = parsed(tmp_path, content)
    calls = [row for row in rows(found, "host_events", "process", "start_ns", "correlation") if row[2] == 2]
    assert calls == [(9, 50, 2)]
    assert found["host_events"].height == (10 if form == "none" else 3)


def test_what_the_projection_leaves_open_is_said(tmp_path):
    said = dict(notices(parsed(tmp_path)))
    # custom-call.2 launched two kernels. Lost: 4 of a thread without ranges, 1 of run 1, 4 of run 2, none of while.1
    assert (said["projected_hulls"], said["unranged_operations"]) == (1, 8)
    assert said["bad_row"] == 1  # the dump, which is no HLO


def test_an_unfinished_last_run_is_no_step(tmp_path):
    last = [(21, None, STEP, 300, 5, 2), (22, 21, "TSL:Thunk:#hlo_op=fusion.1#", 300, 5, 1)]
    found = parsed(tmp_path, files() | {TRACE: parquet(trace([*ROWS, *last]))})
    assert found["program_runs"].height == 3
    assert found["steps"].height == 2
    assert dict(notices(found))["runs_cut"] == 1


def test_a_captured_graph_is_no_kernel(tmp_path):
    name = "TSL:Thunk:#hlo_op=command_buffer.4#"
    found = parsed(tmp_path, files() | {TRACE: parquet(trace([*ROWS, (30, 11, name, 215, 20, 9)]))})
    assert rows(found, "device_ops", "name", "kind")[-1] == ("command_buffer.4", "graph")


def test_the_layout_of_nsight_systems_2024_5(tmp_path):
    found = parsed(tmp_path, files() | {TRACE: parquet(later_trace())})
    usual = parsed(tmp_path)
    columns = ("start_ns", "dur_ns", "kind", "collective", "correlation", "hlo")
    assert rows(found, "device_ops", *columns) == rows(usual, "device_ops", *columns)
    assert found["steps"].equals(usual["steps"])
    assert dict(notices(found))["projected_hulls"] == 6


def test_repeated_ids_are_said(tmp_path):
    again = (2, 1, "TSL:Thunk:#hlo_op=fusion.1#", 112, 3, 1)
    found = parsed(tmp_path, files() | {TRACE: parquet(trace([*ROWS, again]))})
    assert dict(notices(found))["duplicate_events"] == 1
    assert found["device_ops"].height == 7


def test_runs_with_the_same_id_do_not_multiply_their_operations(tmp_path):
    module = next(row for row in ROWS if "XlaModule" in row[2])
    found = parsed(tmp_path, files() | {TRACE: parquet(trace([*ROWS, module, module]))})
    (tmp_path / "once").mkdir()
    once = parsed(tmp_path / "once", files())
    assert found["device_ops"].height == once["device_ops"].height


def test_several_devices_are_told_apart_by_their_launching_threads(tmp_path):
    content = files()
    content["device-metadata.parquet"] = parquet(devices((0, 4, 2), (1, 5, 2)))
    launchers = [
        (42, "XlaLauncher:#global=5,local=1,process=2,slice=0#"),
        (43, "XlaLauncher:#global=4,local=0,process=2,slice=0#"),
    ]
    content["thread-metadata.parquet"] = parquet(threads(*launchers, (44, "python")))
    other = [(31, None, STEP, 100, 10, 1), (32, 31, "TSL:Thunk:#hlo_op=fusion.1#", 100, 10, 1)]
    main = [(33, None, "TSL:XlaModule:#hlo_module=jit_one,program_id=9#", 1, 2, 1)]
    parts = [trace(ROWS, 42), trace(other, 43), trace(main, 44)]
    found = parsed(tmp_path, content | {TRACE: parquet(pl.concat(parts))})
    counts = Counter(found["device_ops"]["device"].to_list())
    assert counts == {1: 6, 0: 2}
    assert dict(notices(found))["device_guessed"] == 1
    assert rows(found, "devices", "device") == [(0,), (1,)]
    assert found["sources"]["rank"].to_list() == [2]
    # the first runs of the two devices are one step
    assert rows(found, "steps", "start_ns", "end_ns")[0] == (100, 160)


def test_only_the_trace_is_needed(tmp_path):
    found = parsed(tmp_path, {TRACE: parquet(trace())})
    assert set(found["device_ops"]["device"]) == {0}
    assert rows(found, "devices", "device", "name") == [(0, None)]
    assert rows(found, "sources", "rank", "node", "framework") == [(None, None, "nsys-jax")]
    assert rows(found, "programs", "program_id", "name", "flops") == [("7", "jit_step", None)]


def test_combined_archives_give_a_rank_each(tmp_path):
    path = tmp_path / "all.zip"
    path.write_bytes(zip_of(combined()))
    with expand([str(path)]) as expansion:
        ranks = [
            frame["rank"].item()
            for source in expansion.sources
            for table, frame in NSYS_JAX.parse(source, ParseOptions())
            if table == "sources"
        ]
    assert ranks == [0, 1]


def dot_program(partitions: int) -> bytes:
    """f32[8,16] @ f32[16,32]: 2 * 8 * 32 * 16 operations."""

    def shape(*sides: int) -> bytes:
        return messages.Shape(element_type=11, dimensions=sides).SerializeToString()

    def instruction(number: int, opcode: bytes, of: bytes, **fields: object) -> dict[str, object]:
        return {"name": b"i%d" % number, "opcode": opcode, "shape": of, "id": number, **fields}

    dot = {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]}
    body = [
        instruction(1, b"parameter", shape(8, 16)),
        instruction(2, b"parameter", shape(16, 32), parameter_number=1),
        instruction(3, b"dot", shape(8, 32), operand_ids=[1, 2], dot_dimension_numbers=dot),
    ]
    module = {
        "name": b"jit_step",
        "entry_computation_id": 5,
        "computations": [{"name": b"main", "instructions": body, "id": 5, "root_id": 3}],
        "device_assignment": {"replica_count": 1, "computation_count": partitions},
    }
    return messages.HloProto(hlo_module=module).SerializeToString()


def test_flops_of_the_program_before_optimisation(tmp_path):
    content = files(1) | {BEFORE: lzma.compress(dot_program(4))}
    found = parsed(tmp_path, content)
    columns = ("program_id", "name", "partitions", "replicas", "flops", "dtype", "unknown_loops")
    assert rows(found, "programs", *columns) == [("7", "jit_step", 4, 1, 8192, "f32", 0)]
    assert rows(found, "sources", "rank", "world_size") == [(1, 4)]
    plain = {name.removesuffix(".xz"): data for name, data in content.items()}
    plain[BEFORE.removesuffix(".xz")] = dot_program(1)
    plain["report_nvtx_pushpop_trace.csv"] = PUSHPOP.encode()
    found = parsed(tmp_path, plain)
    assert rows(found, "programs", "partitions", "flops") == [(1, 8192)]
    assert rows(found, "sources", "world_size") == [(None,)]  # nothing says that there are others


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        (TRACE, b"PAR1 and no more", "corrupt_input"),
        (TRACE, b"", "corrupt_input"),
        (TRACE, parquet(pl.DataFrame({"a": [1]})), "unsupported_format"),
        (TRACE, parquet(trace().clear()), "no_device_activity"),
        ("device-metadata.parquet", b"x", "corrupt_input"),
        ("report_nvtx_pushpop_trace.csv.xz", b"x" * 100, "corrupt_input"),
        ("report_nvtx_pushpop_trace.csv.xz", lzma.compress(b"Name\n\xff\xfe\n"), "corrupt_input"),
    ],
)
def test_damage_is_an_error(tmp_path, name, data, kind):
    with pytest.raises(InputError) as caught:
        parsed(tmp_path, files() | {name: data})
    assert caught.value.kind == kind


def test_tables_of_odd_columns_are_read_as_far_as_they_go(tmp_path):
    odd = trace().with_columns(
        pl.col("Projected Start").cast(pl.String),
        pl.col("Name").cast(pl.Categorical),
        pl.Series("NumGPUOps", [[1]] * len(ROWS)),
    )
    found = parsed(tmp_path, files() | {TRACE: parquet(odd)})
    assert found["device_ops"].height == 6
    late = trace([(1, None, STEP, 2**62, 5, 1), (2, None, STEP, 5, -1, 1), (3, None, STEP, 1, 2, 1)])
    found = parsed(tmp_path, files() | {TRACE: parquet(late)})
    assert rows(found, "device_ops", "start_ns") == [(1,)]
    assert dict(notices(found))["dropped_events"] == 2


def test_too_many_rows_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MAX_ROWS", 5)
    with pytest.raises(InputError, match="limit") as caught:
        parsed(tmp_path)
    assert caught.value.kind == "unsupported_format"


def test_too_many_columns_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MAX_COLUMNS", 5)
    with pytest.raises(InputError, match="columns, above the limits") as caught:
        parsed(tmp_path)
    assert caught.value.kind == "unsupported_format"


def test_all_that_is_unpacked_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MAX_ALL_UNPACKED", 1)
    with pytest.raises(InputError, match="unpacks to more than") as caught:
        parsed(tmp_path)
    assert caught.value.kind == "unsupported_format"


def packed(tmp_path_factory) -> bytes:
    folder = put(tmp_path_factory.mktemp("jax"), files())
    with expand([str(folder)]) as expansion:
        return Path(expansion.sources[0].file).read_bytes()


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return packed(tmp_path_factory), tmp_path_factory.mktemp("damaged") / "pack"


@given(data=st.data())
def test_damaged_bytes_never_crash(pack, data):
    content, path = pack
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged[: data.draw(st.integers(600, len(damaged)))])
    source = Source(str(path), "", True, str(path), None, path.stat().st_size)
    with suppress(InputError):
        for _ in NSYS_JAX.parse(source, ParseOptions()):
            pass


KINDS = (
    "TSL:XlaModule:#hlo_module=m,program_id=1#",
    "TSL:Thunk:#hlo_op=a#",
    "NCCL:x",
    "TSL:XlaPass:#name=p#",
)


@st.composite
def forests(draw):
    """Ranges with parents before them."""
    count = draw(st.integers(1, 25))
    found = []
    for number in range(count):
        parent = draw(st.none() | st.integers(0, number - 1)) if number else None
        found.append((number, parent, draw(st.sampled_from(KINDS)), number, 1, 1))
    return found


def slow_nesting(found):
    """(leaf, run) by id, one range at a time."""
    names, parents = {row[0]: row[2] for row in found}, {row[0]: row[1] for row in found}

    def above(number):
        while (number := parents[number]) is not None:
            yield number

    def first(numbers, kind):
        return next((n for n in numbers if names[n] == kind), None)

    module, thunk = KINDS[:2]
    for number, name in names.items():
        inside = [n for n in names if number in above(n)]
        if name == thunk:
            leaf = not any(names[n] == thunk for n in inside)
        else:
            leaf = first(above(number), thunk) is None and not inside
        yield number, leaf, number if name == module else first(above(number), module)


@given(forests())
def test_nesting_is_that_of_the_slow_reference(found):
    nested = ranges.read(trace(found), "p").ranges
    assert nested.select("id", "leaf", "run").rows() == list(slow_nesting(found))


def test_ranges_that_contain_themselves_come_to_an_end():
    found = ranges.read(trace([(1, 2, STEP, 1, 5, 1), (2, 1, STEP, 1, 5, 1), (3, 3, "a", 1, 1, 1)]), "p")
    assert found.ranges.height == 3


@needs_corpus
@pytest.mark.parametrize(
    ("rank", "ops", "walls_us"),
    [
        (0, 13_849, [147_967, 143_041, 127_312, 127_465, 126_859]),
        (1, 13_846, [3_771_021, 140_165, 126_058, 125_548, 126_346]),
    ],
)
def test_a_real_archive(rank, ops, walls_us):
    found = read(NSYS_JAX, REAL[rank])
    assert rows(found, "sources", "rank", "world_size") == [(rank, 4)]
    assert rows(found, "devices", "device", "name", "sm_count", "bandwidth") == [
        (rank, "NVIDIA A100-SXM4-40GB", 108, 1_555_200_000_000)
    ]
    assert found["device_ops"].height == ops
    wall = (pl.col("end_ns") - pl.col("start_ns")) / 1000
    assert found["steps"].select(wall.round().cast(pl.Int64)).to_series().to_list() == walls_us
    of_step = found["hlo_ops"].filter(pl.col("program") == "pjit__wrapped_step_fn").select("hlo")
    inside = found["device_ops"].join(of_step, on="hlo", how="semi")
    # one for each thunk of a step, and none for what is inside of thunks
    assert inside.height == 5 * 2610
    kinds = inside.drop_nulls("collective").group_by("collective").len().sort("collective").rows()
    assert kinds == [("all-gather", 50), ("all-reduce", 45), ("reduce-scatter", 20)]
    step = found["programs"].filter(pl.col("name") == "pjit__wrapped_step_fn").row(0, named=True)
    assert (step["partitions"], step["replicas"], step["dtype"], step["unknown_loops"]) == (4, 1, "bf16", 0)
    assert step["flops"] == pytest.approx(36.99e12, rel=0.001)
    done = inside.join(found["hlo_ops"], on="hlo")["flops"].sum()
    assert done * step["partitions"] == 5 * step["flops"]  # what was compiled does the same, on four devices
    starts = found["device_ops"]["start_ns"].to_list()
    assert all(a <= b for a, b in pairwise(starts))
