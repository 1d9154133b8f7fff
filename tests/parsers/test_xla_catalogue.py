"""Rows of hlo_ops: what the profile's own figures, and the programs in it, say of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fixtures.xla.writer import Plane, Ref, Unsigned, block, number, programs
from mpg_parsers.tables import HLO_OPS
from mpg_parsers.xla.breakdown import device_memory_bytes
from mpg_parsers.xla.catalogue import Catalogue
from mpg_parsers.xla.planes import METADATA
from mpg_parsers.xla.programs import Programs
from mpg_parsers.xla.space import Metadata, Space
from mpg_parsers.xla.space import Plane as SpacePlane
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices
from tests.parsers.test_xla_device import core, tables, tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_parsers.xla.space import Value

NO_PROGRAMS = Programs(Space(()))
LARGE = 11_000_000_000_000_000_007  # a number of a program that does not fit into an int64


class Known(Programs):
    """Programs of which it is written down what they say."""

    def __init__(self, operations: Mapping[tuple[str, str], dict[str, Any]]) -> None:
        super().__init__(Space(()))
        self._known = operations

    def name(self, program: str | None) -> str | None:
        return "jit_known" if any(key[0] == program for key in self._known) else None

    def operation(self, program: str | None, name: str) -> dict[str, Any]:
        return dict(self._known.get((program or "", name), {}))


def catalogue(known: Programs = NO_PROGRAMS) -> Catalogue:
    return Catalogue(known, lambda text: text.replace("/home/someone/", ""))


def row(
    expression: str, stats: Mapping[str, Value] | None = None, known: Programs = NO_PROGRAMS
) -> dict[str, Any]:
    """The row of one operation of a TPU."""
    plane = SpacePlane("/device:TPU:0", {}, (), {4: Metadata(expression, "", stats or {})})
    found = catalogue(known)
    found.of_plane(plane, pl.Series([4]))
    table = found.table()
    assert table.schema == HLO_OPS.conform(pl.DataFrame()).schema
    return table.to_dicts()[0]


def picked(found: dict[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in want}


DOT = "%fusion.3 = bf16[8,16]{1,0:T(8,128)} fusion(bf16[8,4]{1,0} %a), kind=kOutput"
CONVOLUTION = "%c.1 = f32[8] convolution()"
STATED: dict[str, Value] = {
    "hlo_category": "convolution fusion", "program_id": LARGE, "symbol_id": 7, "model_flops": 1024, "flops": 1100,
    "bytes_accessed": 384, "tf_op": "jit(f)/dot_general:", "source": "/home/someone/train/model.py:31",
}  # fmt: skip


def test_the_profile_alone() -> None:
    want = {
        "hlo": 0, "program_id": str(LARGE), "program": None, "name": "fusion.3", "category": "convolution fusion",
        "framework_op": "jit(f)/dot_general", "location": "train/model.py:31", "shape": "bf16[8,16]", "flops": 1024,
        "all_flops": 1100, "dtype": "bf16", "bytes": 320, "flops_source": "model_flops", "opaque": False,
        "recompute": False,
    }  # fmt: skip
    assert picked(row(DOT, STATED), want) == want


PROGRAM = {
    "category": "fusion", "framework_op": "jit(f)/inner", "location": "a.py:1", "shape": "f32[8,16]", "flops": 1000,
    "all_flops": 1001, "dtype": "f32", "bytes": 99, "flops_source": "hlo", "opaque": False, "recompute": True,
}  # fmt: skip


def test_the_program_alone() -> None:
    """As on a GPU, whose kernels name their operation and nothing else."""
    known = Known({("5", "fusion.3"): PROGRAM})
    kernels = pl.DataFrame({"program_id": [5], "hlo_module": ["jit_f"], "hlo_op": ["fusion.3"]})
    found = catalogue(known)
    assert found.of_kernels(kernels)["hlo"].to_list() == [0]
    want = PROGRAM | {"program": "jit_known", "program_id": "5", "name": "fusion.3"}
    assert picked(found.table().to_dicts()[0], want) == want


def test_both() -> None:
    """FLOPs are the program's; the category, the arrays it moves, and all that XLA counts are the profiler's."""
    found = row(DOT, STATED, Known({(str(LARGE), "fusion.3"): PROGRAM}))
    want = {
        "program": "jit_known", "category": "convolution fusion", "flops": 1000, "all_flops": 1100, "dtype": "f32",
        "bytes": 320, "flops_source": "hlo", "recompute": True, "shape": "bf16[8,16]",
    }  # fmt: skip
    assert picked(found, want) == want


def test_a_program_that_does_not_know_what_the_profiler_does() -> None:
    unknown = PROGRAM | {"flops": None, "dtype": None, "flops_source": None, "opaque": True}
    found = row(DOT, STATED, Known({(str(LARGE), "fusion.3"): unknown}))
    assert picked(found, want := {"flops": 1024, "flops_source": "model_flops", "opaque": False}) == want


@pytest.mark.parametrize(
    ("expression", "stats", "want"),
    [
        # matrix work by category; other work has no FLOPs that count
        ("%f.1 = f32[8] fusion()", {"hlo_category": "loop fusion", "model_flops": 9}, (0, 9, "model_flops", False)),
        ("%c.1 = f32[8] convolution()", {"hlo_category": "convolution", "flops": 9}, (9, 9, "flops", False)),
        ("%d.1 = f32[8] dot()", {"hlo_category": "dot", "model_flops": 0}, (0, 0, "model_flops", False)),
        ("%f.1 = f32[8] fusion()", {"hlo_category": "output fusion", "model_flops": 7}, (7, 7, "model_flops", False)),
        ("%f.1 = f32[8] fusion()", {"hlo_category": "convolution fusion"}, (None, None, None, False)),
        # without a category: what a fusion computes is not known
        ("fusion.1", {"model_flops": 9}, (None, 9, None, False)),
        ("fusion.1", {"model_flops": 0}, (0, 0, "model_flops", False)),
        ("convolution.1", {"model_flops": 9}, (9, 9, "model_flops", False)),
        ("add.1", {"model_flops": 9}, (0, 9, "model_flops", False)),
        ("add.1", {}, (None, None, None, False)),
        # custom calls: 0 says nothing, a figure does
        ("%k.1 = f32[8] custom-call()", {"hlo_category": "custom-call", "model_flops": 0}, (None, 0, None, True)),
        ("%k.1 = f32[8] custom-call()", {"hlo_category": "custom-call"}, (None, None, None, True)),
        ("%k.1 = f32[8] custom-call()", {"hlo_category": "custom-call", "model_flops": 5},
         (5, 5, "model_flops", False)),
        ("custom-call.1", {}, (None, None, None, True)),
        ('%k.1 = f32[8] custom-call(), custom_call_target="MoveToHost"', {"hlo_category": "custom-call"},
         (0, None, "hlo", False)),
        ('%k.1 = f32[8] custom-call(), custom_call_target="Sharding"', {"hlo_category": "custom-call", "flops": 0},
         (0, 0, "hlo", False)),
        # figures as text, and what is no figure
        (CONVOLUTION, {"hlo_category": "convolution", "flops": "12"}, (12, 12, "flops", False)),
        (CONVOLUTION, {"hlo_category": "convolution", "flops": "many"}, (None, None, None, False)),
        (CONVOLUTION, {"hlo_category": "convolution", "flops": -4}, (None, None, None, False)),
        (CONVOLUTION, {"hlo_category": "convolution", "flops": 1 << 63}, (None, None, None, False)),
        (CONVOLUTION, {"hlo_category": "convolution", "flops": float("nan")}, (None, None, None, False)),
        (CONVOLUTION, {"hlo_category": "convolution", "flops": float("inf")}, (None, None, None, False)),
        (CONVOLUTION, {"hlo_category": "convolution", "flops": b"\xff"}, (None, None, None, False)),
        (CONVOLUTION, {"hlo_category": "convolution", "flops": "9" * 5_000}, (None, None, None, False)),
    ],
)  # fmt: skip
def test_flops_of_the_profiler(
    expression: str, stats: dict[str, Value], want: tuple[int | None, int | None, str | None, bool]
) -> None:
    found = row(expression, stats)
    assert (found["flops"], found["all_flops"], found["flops_source"], found["opaque"]) == want


@pytest.mark.parametrize(
    ("expression", "tf_op", "recompute"),
    [
        ("%fusion.3.remat = f32[] fusion()", "", True),
        ("%fusion.3.remat2.1 = f32[] fusion()", "", True),
        ("%fusion.3 = f32[] fusion(f32[] %dot.remat)", "", False),
        ("%fusion.3 = f32[] fusion()", "jit(f)/transpose(jvp(g))/rematted_computation/dot_general:", True),
        ("%fusion.3 = f32[] fusion()", "jit(f)/remat/dot_general:", True),
        ("%fusion.3 = f32[] fusion()", "jit(f)/rematerialize_x/dot:", False),
    ],
)
def test_recomputation(expression: str, tf_op: str, *, recompute: bool) -> None:
    assert row(expression, {"tf_op": tf_op})["recompute"] is recompute


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("%a.1 = f32[] add()", "f32[]"),
        ("%a.1 = (bf16[2,3]{1,0}, u32[]) copy-start()", "bf16[2,3]"),
        ("%a.1 = f8e4m3fn[4]{0} dot()", "f8e4m3fn[4]"),
        ("%a.1 = f32[<=8,2] add()", "f32[<=8,2]"),
        ("%a.1 = token[] after-all()", "token[]"),
        ("fusion.3", None),
        ("%a.1 = ((f32[2]), f32[]) tuple()", None),
    ],
)
def test_shape(expression: str, shape: str | None) -> None:
    assert row(expression)["shape"] == shape


def test_texts_are_bounded() -> None:
    long = "x" * 1_000_000
    found = row(long, {"hlo_category": long, "tf_op": long, "source": long, "program_id": 1})
    assert max(len(value) for value in found.values() if isinstance(value, str)) <= 300


# -------------------------------------------------------------------------------------------- what is one row


def test_numbers() -> None:
    """The same operation on two cores is one; on another program, another. Ids mean nothing between planes."""
    stats = {"hlo_category": "loop fusion", "program_id": Unsigned(LARGE)}
    other = {"hlo_category": "loop fusion", "program_id": Unsigned(12)}
    one = core(("fusion.1", 0, 1, stats), ("fusion.2", 1, 1, stats))
    two = core(("fusion.2", 0, 1, stats), ("%fusion.1 = f32[] fusion()", 1, 1, other), name="/device:TPU:1")
    found = tables(one, two)
    rows = found["hlo_ops"].select("hlo", "program_id", "name").rows()
    assert rows == [(0, str(LARGE), "fusion.1"), (1, str(LARGE), "fusion.2"), (2, "12", "fusion.1")]
    ops = found["device_ops"].sort("device", "start_ns").select("device", "name", "hlo").rows()
    assert ops == [(0, "fusion.1", 0), (0, "fusion.2", 1), (1, "fusion.2", 1), (1, "fusion.1", 2)]


def test_operations_without_a_program() -> None:
    """As in Chrome's format: what differs in what it costs is another one."""
    plane = SpacePlane("p", {}, (), {
        1: Metadata("fusion.1", "", {"model_flops": "8"}),
        2: Metadata("fusion.1", "", {"model_flops": "8"}),
        3: Metadata("fusion.1", "", {"model_flops": "9"}),
    })  # fmt: skip
    found = catalogue()
    assert found.of_plane(plane, pl.Series([1, 2, 3, 4, 4]))["hlo"].to_list() == [0, 0, 1, 2, 2]
    assert found.table()["program_id"].to_list() == [None] * 3
    assert found.category(0) == "fusion"


def test_nothing() -> None:
    table = catalogue().table()
    assert (table.height, table.schema) == (0, HLO_OPS.conform(pl.DataFrame()).schema)


# --------------------------------------------------------------------------------------------------- programs


def test_programs_of_the_planted_runs() -> None:
    found = tables_of((ROOT / "fixtures/xla/tpu_train/tpu-host-0.xplane.pb").read_bytes())
    rows = found["programs"].select("program_id", "name", "partitions", "replicas", "opaque").rows()
    assert [row[:2] for row in rows] == [
        ("7021554318846502113", "jit_train_step"), ("15280117604429900871", "jit_loss_mean"),
    ]  # fmt: skip
    assert [row[4] for row in rows] == ['["tpu_custom_call"]', None]


def test_programs_that_are_damaged() -> None:
    """They are told, and count for nothing; those that did not run are not read at all."""
    blobs = programs({(5, "jit_f"): b"\xff\xff", (6, "jit_unused"): b"\xff", (7, "jit_text"): b"text"})
    stats = {"program_id": Unsigned(5), "hlo_category": "convolution", "model_flops": 8}
    found = tables(core(("convolution.1", 0, 1, stats)), blobs)
    assert found["hlo_ops"].select("program", "flops", "flops_source").rows() == [("jit_f", 8, "model_flops")]
    assert found["programs"].is_empty()
    assert notices(found) == [("bad_row", 1)]


def test_programs_without_a_number_in_their_name() -> None:
    plane = Plane(METADATA)
    plane.metadata("jit_f", stats={"Hlo Proto": b"\x80"}, key=-3)
    plane.metadata("jit_g(12345678901234567890123)", stats={"Hlo Proto": Ref("no bytes")}, key=9)
    found = tables(core(("dot.1", 0, 1, {"program_id": -3})), plane)
    assert found["hlo_ops"].select("program_id", "program").rows() == [(str(2**64 - 3), "jit_f")]


# --------------------------------------------------------------------------------------- bytes by memory space


def access(operation: int, space: int, size: int) -> bytes:
    return block(1, number(1, operation) + number(2, space) + number(3, size))


@pytest.mark.parametrize(
    ("blob", "moved"),
    [
        (access(1, 1, 100) + access(2, 1, 20), 120),
        (access(1, 1, 100) + access(1, 3, 7), 100),  # 3: VMEM
        (access(1, 3, 7), 0),
        (access(1, 1, 0), 0),
        (b"", None),
        (b"\x0a\x05\x08", None),
        (access(1, 1, -5), None),
        (access(1, 1, 1 << 62), None),
        (access(1, 1, (1 << 63) - 1) * 3, None),
    ],
)
def test_bytes_by_memory(blob: bytes, moved: int | None) -> None:
    assert device_memory_bytes(blob) == moved
    stats: dict[str, Value] = {"memory_access_breakdown": blob, "bytes_accessed": 33}
    assert row("fusion.1", stats)["bytes"] == (33 if moved is None else moved)
