"""Operations of HLO programs: what they are called, where they come from, their memory traffic, and custom calls."""

from __future__ import annotations

import json
import lzma
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mpg_parsers.xla.hlo import Operation, load, operations, program_flops
from mpg_parsers.xla.messages import Field, classes
from tests.parsers.hlo_text import message, module

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "xla"
FUSED = """
inner {
  a = f32[8,64] parameter(0)
  b = f32[64,8] parameter(1)
  ROOT d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
sliced {
  a = f32[100,64] parameter(0)
  i = s32[] parameter(1)
  u = f32[8,64] parameter(2)
  d = f32[8,64] dynamic-slice(a, i, i)
  s = f32[4,64] slice(u)
  ROOT t = (f32[8,64], f32[4,64]) tuple(d, s)
}
updated {
  a = f32[100,64] parameter(0)
  i = s32[] parameter(1)
  u = f32[8,64] parameter(2)
  n = f32[8,64] negate(u)
  ROOT r = f32[100,64] dynamic-update-slice(a, n, i, i)
}
ENTRY main {
  a = f32[8,64] parameter(0)
  b = f32[64,8] parameter(1)
  big = f32[100,64] parameter(2)
  i = s32[] parameter(3)
  away = f32[8,64]{1,0:T(8,128)S(5)} parameter(4)
  near = f32[8,64]{1,0:T(8,128)S(1)} parameter(5)
  ROOT r = %s
}
"""


def only(line: str) -> Operation:
    [found] = [item for item in operations(load(module(FUSED % line))) if item.name == "r"]
    return found


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("f32[8,8] fusion(a, b), kind=kLoop, calls=inner", "loop fusion"),
        ("f32[8,8] fusion(a, b), kind=kInput, calls=inner", "input fusion"),
        ("f32[8,8] fusion(a, b), kind=kCustom, calls=inner", "custom fusion"),
        ("f32[8,8] fusion(a, b), kind=kOutput, calls=inner", "convolution fusion"),
        ("f32[100,64] fusion(big, i, a), kind=kOutput, calls=updated", "output fusion"),
        ("f32[8,64] copy(a)", "data formatting"),
        ("f32[64,8] transpose(a), dimensions={1,0}", "data formatting"),
        ("f32[512] reshape(a)", "data formatting"),
        ("f32[8,64] multiply(a, a)", "non-fusion elementwise"),
        ("s32[8,64] bitcast-convert(a)", "non-fusion elementwise"),
        ("u8[8,64,4] bitcast-convert(a)", "bitcast-convert"),
        ("f32[8,64] broadcast(a), dimensions={0,1}", "broadcast"),
        ("(f32[8,64], token[]) recv(a), is_host_transfer=true", "host recv"),
        ("f32[8,64] all-reduce(a)", "all-reduce"),
        ("f32[8,64] copy-done(a)", "copy-done"),
        ('f32[8,64] custom-call(a), custom_call_target="x"', "custom-call"),
        ("f32[8] convolution(a, b), window={size=1 lhs_dilate=2}, dim_labels=b0f_0io->b0f", ""),
    ],
)
def test_categories(line: str, category: str) -> None:
    if category:
        assert only(line).category == category


def test_a_dilated_convolution_says_so() -> None:
    text = "  a = f32[2,9,3] parameter(0)\n  b = f32[3,3,8] parameter(1)\n  ROOT r = f32[2,17,8] convolution(a, b), "
    text += "window={size=3 pad=1_1 lhs_dilate=2 rhs_dilate=1}, dim_labels=b0f_0io->b0f"
    assert operations(load(module(text)))[-1].category == "convolution base-dilated"


A, BIG = 8 * 64 * 4, 100 * 64 * 4


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        ("f32[8,64] negate(a)", 2 * A),
        ("f32[8,64] negate(near)", A),
        ("f32[8,64]{1,0:T(8,128)S(1)} negate(near)", 0),
        ("f32[8,64]{1,0:S(1)} negate(a)", 2 * A),
        ("(f32[8,64]{1,0:T(8,128)}, f32[8,64]{1,0:T(8,128)S(5)}, u32[]) copy-start(away)", A),
        ("f32[8,64] copy-done(a)", 0),
        ("f32[512] bitcast(a)", 0),
        ("f32[4,64] slice(a)", A),
        ("f32[8,64] dynamic-slice(big, i, i)", 2 * A + 8),
        ("f32[100,64] dynamic-update-slice(big, a, i, i)", 2 * A + 8),
        ("f32[8,64] gather(big, i)", 2 * A + 4),
        ("f32[100,64] scatter(big, i, a)", 3 * A + 4),
        ("(f32[8,64], f32[16,64]) all-gather-start(a)", 3 * A),
        ("(f32[8,64], f32[4,64]) fusion(big, i, a), kind=kLoop, calls=sliced", A + 4 + A // 2 + A + A // 2),
        ("f32[100,64] fusion(big, i, a), kind=kLoop, calls=updated", 4 + A + A),
        ("f32[8,8] fusion(a, b), kind=kLoop, calls=inner", 2 * A + 256),
        ("f32[8,8] fusion(near, b), kind=kLoop, calls=inner", A + 256),
    ],
)
def test_bytes(line: str, moved: int) -> None:
    found = [item.bytes for item in operations(load(module(FUSED % line))) if item.name == "r"]
    assert (found or [0]) == [moved]


GEMM = '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
GEMM += '"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]},'
GEMM += '"precision_config":{"operand_precision":["DEFAULT","HIGHEST"],"algorithm":"ALG_UNSET"}}}'
SCORES = '{"cudnn_fmha_backend_config":{"intermediate_tensor_shape":{"dimensions":["2","4","16","24"]}}}'
STATED = '{"custom_call_config":{"body":"TUzv","cost_estimate":'
STATED += '{"flops":"4096","transcendentals":7,"bytes_accessed":99}}}'
QKV = "bf16[2,16,4,8] parameter(0)", "bf16[2,24,4,8] parameter(1)", "bf16[2,24,4,32] parameter(2)"
CONV = "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"


def call(target: str, result: str, operands: tuple[str, ...], rest: str = "", config: str = "") -> Operation:
    names = [f"o{index}" for index in range(len(operands))]
    rows = [f"  {name} = {operand}" for name, operand in zip(names, operands, strict=True)]
    extra = f", backend_config={config}" if config else ""
    extra += f", {rest}" if rest else ""
    rows.append(f'  ROOT r = {result} custom-call({", ".join(names)}), custom_call_target="{target}"{extra}')
    program = load(module("\n".join(rows)))
    [found] = operations(program)
    assert program_flops(program).matrix_flops == (found.matrix_flops or 0)
    assert program_flops(program).opaque == ({target: 1} if found.matrix_flops is None else {})
    return found


IMAGE, KERNEL, OUTPUT = "f32[2,12,10,3]", "f32[3,3,3,8]", "f32[2,12,10,8]"
MATRICES = "f32[8,64] parameter(0)", "f32[64,8] parameter(1)"
EIGHT_BITS = "f8e4m3fn[8,64] parameter(0)", "f8e5m2[64,8] parameter(1)", "f32[] parameter(2)"
ONE = ("f32[8,8] parameter(0)",)


def pair(first: str, second: str) -> tuple[str, ...]:
    return f"{first} parameter(0)", f"{second} parameter(1)"


# target, result, operands, further attributes, configuration; operations of matrix work, their type and passes
CUSTOM_CALLS = [
    ("__cublas$gemm", "(f32[8,8], s8[4096])", MATRICES, "", GEMM, 8192, ("f32", 6)),
    ("__cublas$lt$matmul$f8", "bf16[8,8]", EIGHT_BITS, "", GEMM, 8192, ("f8e4m3fn", 1)),
    ("__cublas$lt$matmul", "f32[8,8]", MATRICES, "", "", None, ("", 1)),
    ("__cudnn$convForward", f"({OUTPUT}, u8[9])", pair(IMAGE, KERNEL), CONV, "", 91392, ("f32", 1)),
    ("__cudnn$convBackwardInput", f"({IMAGE}, u8[9])", pair(OUTPUT, KERNEL), CONV, "", 91392, ("f32", 1)),
    ("__cudnn$convBackwardFilter", f"({KERNEL}, u8[9])", pair(IMAGE, OUTPUT), CONV, "", 91392, ("f32", 1)),
    ("__cudnn$fmhaSoftmax", "(bf16[2,16,4,32], u8[0])", QKV, "", SCORES, 245760, ("bf16", 1)),
    ("__cudnn$fmhaSoftmaxBackward", "(bf16[2,16,4,8], u8[0])", QKV, "", SCORES, 540672, ("bf16", 1)),
    ("__cudnn$fmhaSoftmax", "(bf16[2,16,4,32], u8[0])", QKV, "", "{}", None, ("", 1)),
    ("tpu_custom_call", "f32[8,8]", QKV, "", STATED, 4096, ("bf16", 1)),
    ("tpu_custom_call", "f32[8,8]", QKV, "", "", None, ("", 1)),
    ("tpu_custom_call", "f32[8,8]", QKV, "", '{"cost_estimate":{"flops":-5}}', None, ("", 1)),
    ("__gpu$xla.gpu.triton", "f32[8,8]", QKV, "", "{broken", None, ("", 1)),
    ("Sharding", "f32[8,8]", ONE, "", "", 0, ("", 1)),
    ("xla.sdy.GlobalToLocalShape", "f32[8,8]", ONE, "", "", 0, ("", 1)),
    ("__cub$DeviceRadixSort", "f32[8,8]", ONE, "", "", 0, ("", 1)),
]


@pytest.mark.parametrize("case", CUSTOM_CALLS, ids=lambda case: case[0])
def test_custom_calls(case: tuple[Any, ...]) -> None:
    target, result, operands, rest, config, flops, kind = case
    found = call(target, result, operands, rest, config)
    assert (found.matrix_flops, found.target) == (flops, target)
    assert (found.dtype, found.passes) == kind
    assert (found.bytes is None) == (flops is None)


def test_what_is_stated_is_told_apart() -> None:
    found = call("tpu_custom_call", "f32[8,8]", QKV, "", STATED)
    assert (found.stated_flops, found.flops, found.transcendentals, found.bytes) == (4096, 4096, 7, 99)


def test_scratch_space_is_no_traffic() -> None:
    found = call(
        "__cublas$gemm",
        "(f32[8,8], s8[4096])",
        ("f32[8,64] parameter(0)", "f32[64,8] parameter(1)"),
        "",
        GEMM,
    )
    assert found.bytes == 2 * A + 256


def test_unknown_work_is_null_but_known_traffic_is_not() -> None:
    found = call("__cub$DeviceRadixSort", "f32[8,8]", ("f32[8,8] parameter(0)",))
    assert (found.flops, found.transcendentals, found.bytes) == (None, None, 512)


def test_where_operations_come_from() -> None:
    frames = message((1, "model.py"), (3, message((1, 1), (3, 42))), (4, message((1, 1))))
    text = """
  a = f32[8] parameter(0)
  b = f32[8] negate(a), metadata={op_name="jit(f)/neg" source_file="train.py" source_line=7}
  c = f32[8] negate(b), metadata={op_name="jit(f)/checkpoint/rematted_computation/neg" stack_frame_id=1}
  d.remat = f32[8] negate(c), metadata={op_name="jit(f)/neg" stack_frame_id=2}
  ROOT e = f32[8] negate(d.remat)"""
    found = operations(load(module(text, (17, frames))))
    assert [(item.framework_op, item.source, item.rematerialised) for item in found] == [
        ("jit(f)/neg", "train.py:7", False),
        ("jit(f)/checkpoint/rematted_computation/neg", "model.py:42", True),
        ("jit(f)/neg", "", True),
        ("", "", False),
    ]


def test_what_runs_on_its_own() -> None:
    text = """
body {
  p = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8,8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[8,8]) tuple(next, y)
}
condition {
  p = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[8,8] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[8,8]) tuple(z, x)
  ROOT loop = (s32[], f32[8,8]) while(t), condition=condition, body=body
}"""
    found = {item.name: item for item in operations(load(module(text)))}
    assert set(found) == {"loop", "next", "y", "lt"}
    assert (found["y"].container, found["y"].matrix_flops, found["y"].computation) == (False, 1024, "body")
    assert (found["loop"].container, found["loop"].matrix_flops) == (True, 5 * 1024)


@pytest.mark.parametrize(
    "text",
    [
        "f32[8,128]{1,0:T(8,128)(2,1)S(1)}",
        "(bf16[2]{0}, (u32[], s8[4]{0:S(5)}))",
        "token[]",
        "f32[]",
        "pred[0]{0}",
    ],
)
def test_shapes_as_text(text: str) -> None:
    assert load(module(f"  ROOT a = {text} parameter(0)")).computations[1].root().shape.text == text


def corpus(name: str) -> Path:
    path = CORPUS / name
    if not path.exists():
        pytest.skip(f"{name} is not in this checkout: real profiles lie in ../shared/corpus/xla")
    return path


MESSAGES: dict[str, tuple[Field, ...]] = {
    "Space": (Field("planes", 1, "Plane", repeated=True),),
    "Plane": (Field("name", 2, "bytes"), Field("metadata", 4, "Entry", repeated=True)),
    "Entry": (Field("value", 2, "Metadata"),),
    "Metadata": (Field("name", 2, "bytes"), Field("stats", 5, "Stat", repeated=True)),
    "Stat": (Field("blob", 6, "bytes"),),
}


def programs(path: Path) -> dict[str, bytes]:
    """The HLO programs in a profile, by number in their name: jit_f(12)."""
    space = classes("mpg_test_hlo", MESSAGES)["Space"]()
    space.ParseFromString(path.read_bytes())
    entries = [
        entry.value for plane in space.planes if plane.name == b"/host:metadata" for entry in plane.metadata
    ]
    found = {
        entry.name.decode(): max((stat.blob for stat in entry.stats), key=len, default=b"")
        for entry in entries
    }
    return {name.rpartition("(")[2].rstrip(")"): blob for name, blob in found.items() if len(blob) > 99}


def oracle(name: str) -> list[dict[str, Any]]:
    """Rows of xprof's hlo_stats."""
    table = json.loads(corpus(f"oracles/{name}/hlo_stats.json").read_text())
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("mi300_jax08_attention", 24),
        ("mi300_jax08_gemm", 16),
        ("mi300_jax_conv_legacy", 4),
        ("tpu_inference_2", 17),
    ],
)
def test_operations_are_named_as_xprof_names_them(name: str, rows: int) -> None:
    table = oracle(name)
    blobs = programs(corpus(f"{name}.xplane.pb"))
    found = {(number, item.name): item for number, blob in blobs.items() for item in operations(load(blob))}
    assert len(table) == rows
    for row in table:
        item = found[row["program_id"], row["hlo_op_name"]]
        assert item.category == row["category"]
        assert row["hlo_op_expression"].startswith(f"%{item.name} = {item.shape} ")
        assert item.framework_op == row["tf_op_name"].rstrip(":")
        assert item.rematerialised == (row["hlo_rematerialization"] == "Yes")
        if re.match(r"custom fusion|custom-call", item.category) and row["model_flop_rate"]:
            assert item.matrix_flops == round(row["model_flop_rate"] * row["avg_time"] * 1e3)


@pytest.mark.parametrize("process", [0, 1])
def test_a_real_training_step(process: int) -> None:
    """paxml on 4 GPUs, fully sharded: XLA counts 37.239 TFLOP in the unoptimised program, elementwise work included."""
    archive = corpus(f"nsys_jax/pax_fsdp4_4proc_proc{process}.zip")
    stem = "dump/module_0040.pjit__wrapped_step_fn"
    with zipfile.ZipFile(archive) as packed:
        before, after = (
            program_flops(load(lzma.decompress(packed.read(f"{stem}.{stage}_optimizations.hlo.pb.xz"))))
            for stage in ("before", "sm_8.0_gpu_after")
        )
    assert (before.flops, before.matrix_flops) == (37_239_022_311_503, 36_986_110_869_504)
    assert (before.partitions, before.replicas, before.per_device) == (4, 1, False)
    assert (after.partitions, after.per_device) == (4, True)
    assert before.device_flops == after.matrix_flops == after.device_flops
    assert set(before.dtypes) == {"bf16"}
    assert before.duplicate_flops == 0
    for cost in (before, after):
        assert (cost.opaque, cost.loops, cost.choices) == ({}, (), ())
