"""Reports with a program layer; figures of the first three are those of real traces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from mpg_cli.report.model import (
    Goodput,
    Op,
    Ratio,
    Report,
    Roofline,
    Unmodelled,
    Warning,  # noqa: A004
    Window,
)
from tests.mpg_cli.report.reports import NO_SCHEDULER, REASONS, device, quality, report, source

if TYPE_CHECKING:
    from collections.abc import Sequence

BF16 = "c10::BFloat16"
H100 = Roofline("H100 SXM", "bf16", 989.4, 3350.0)
B200 = Roofline("B200 SXM", "bf16", 2250.0, 8000.0)
MI300X = Roofline("MI300X", "bf16", 1307.4, 5300.0)
V100 = Roofline("V100 SXM2 32GB", "fp32", 15.7, None)
PADDING = Warning("padding_unknown", "padding does not show in shapes: say --useful-tokens FRACTION")


def op(
    roof: Roofline,
    computing: int,
    name: str,
    dims: Sequence[object],
    calls: tuple[int, int, int, int | None],
    dtype: str = BF16,
) -> Op:
    """calls: count, time in ns, FLOPs and bytes of all of them; the rest follows from these and the roof."""
    count, time, flops, moved = calls
    by_flops = flops / roof.peak_tflops / 1000
    by_bytes = moved / roof.bandwidth_gbps if moved and roof.bandwidth_gbps else 0.0
    best = max(by_flops, by_bytes)
    return Op(
        op=name,
        dims=orjson.dumps(dims, option=orjson.OPT_INDENT_2).decode(),
        dtypes=orjson.dumps([dtype if shape else "Scalar" for shape in dims]).decode(),
        count=count,
        kernels=count,
        time_ns=time,
        share=time / computing,
        flops=flops,
        bytes=moved,
        tflops=flops / time / 1000,
        gbps=None if moved is None else moved / time,
        intensity=flops / moved if moved else None,
        bound="memory" if by_bytes > by_flops else "compute",
        efficiency=best / time if best else None,
        recoverable_ns=round(time - best),
        recompute_ns=0,
        flops_source="shapes",
    )


def judged(amounts: dict[str, int], roof: Roofline, path: str, basis: str, **rest: object) -> Report:
    """A report on one chip whose computing time is split by `amounts`."""
    base = report(
        amounts,
        (source(path, 0),),
        (device(path, 0, 0, (1_000_000, 0, 0, 200_000), kernels=500, name=f"The {roof.chip}"),),
        (Window(path, "steps", 0, sum(amounts.values()), 1, 1, 0, 0),),
        rooflines=(roof,),
        warnings=(PADDING,),
        **rest,
    )
    assert base.goodput.rg is not None
    computing, ideal, capacity = base.goodput.rg.numerator_ns, amounts.get("ideal", 0), sum(amounts.values())
    pg = Ratio(ideal / computing, ideal, computing, basis, 0.9999)
    mfu = Ratio(ideal / capacity, ideal, capacity, basis, 1.0)
    reasons = {"sg": NO_SCHEDULER, "mpg": "needs SG and PG"}
    goodput = Goodput(None, base.goodput.rg, pg, None, mfu=mfu, hfu=mfu, reasons=reasons)
    covered = replace(quality(base.quality.windows, "A"), shape_coverage=0.99998, linked_coverage=0.99998)
    return replace(base, goodput=goodput, quality=covered)


OWLV2 = (
    ("aten::_softmax", [[16, 5185, 5185], [], []], (120, 262_422_467, 0, 206_470_848_000)),
    ("aten::bmm", [[16, 5185, 64], [16, 64, 5185]], (120, 130_015_700, 6_607_067_136_000, 105_783_955_200)),
    ("aten::bmm", [[16, 5185, 5185], [16, 5185, 64]], (120, 99_311_410, 6_607_067_136_000, 105_783_955_200)),
    (
        "aten::addmm",
        [[1024], [5185, 1024], [1024, 1024]],
        (480, 10_035_521, 5_219_391_897_600, 11_201_740_800),
    ),
    ("aten::copy_", [[1, 16, 5185, 64], [1, 16, 5185, 64], []], (360, 5_038_033, 0, 7_645_593_600)),
    ("aten::addmm", [[1024], [5185, 4096], [4096, 1024]], (120, 7_766_737, 5_219_391_897_600, 7_378_206_720)),
    ("aten::native_layer_norm", [[1, 5185, 1024], [], [1024], [1024]], (250, 3_701_084, 0, 5_320_834_000)),
    ("aten::addmm", [[4096], [5185, 1024], [1024, 4096]], (120, 6_884_569, 5_219_391_897_600, 7_378_944_000)),
    ("aten::addmm", [[768], [5, 768], [768, 768]], (240, 1_579_851, 1_415_577_600, 287_170_560)),
    (
        "aten::cudnn_convolution",
        [[1, 3, 1008, 1008], [1024, 3, 14, 14], []],
        (5, 1_311_826, 31_213_486_080, 89_587_200),
    ),
    ("aten::sigmoid", [[1, 5185, 4096]], (120, 3_988_498, 0, 10_194_124_800)),
    ("aten::mul", [[1, 5185, 4096], [1, 5185, 4096]], (120, 5_223_730, 0, 15_291_187_200)),
)


def owlv2() -> Report:
    """One step of an H100: attention without fusion, and a device that is idle half of the time."""
    amounts = {
        "ideal": 29_478_878,
        "memory_bound": 130_376_602,
        "kernel_inefficiency": 391_582_868,
        "unmodelled": 13_280,
        "memory_copy": 15_307_849,
        "unknown": 644_422_775,
    }
    ops = tuple(op(H100, 551_451_628, *row) for row in OWLV2)
    arange = (Unmodelled("aten::arange", 10, 13_280, 0.000024),)
    return judged(amounts, H100, "owlv2.json.gz", "bf16 peak of H100 SXM", ops=ops, unmodelled=arange)


def uncovered() -> Report:
    """PG is null: most of computing is in a custom operator."""
    amounts = {
        "ideal": 108_051,
        "memory_bound": 314_917,
        "kernel_inefficiency": 2_002_389,
        "unmodelled": 6_226_780,
        "communication": 2_141_501,
        "unknown": 72_890_696,
    }
    rows = (
        ("_C::fused_add_rms_norm", [[888, 2880], [888, 2880], [2880], []], (72, 452_068, 0, 1_473_500_160)),
        ("aten::addmm", [[640], [888, 2880], [2880, 640]], (36, 287_423, 117_846_835_200, 357_811_200)),
    )
    missing = (
        Unmodelled("vllm::moe_forward", 252, 6_078_426, 0.697),
        Unmodelled("vllm::unified_attention_with_output", 18, 212_544, 0.0244),
        *(Unmodelled(f"no operator {i}", 2, 5_088 - i, 0.0006) for i in range(5)),
    )
    ops = tuple(op(B200, 8_652_137, *row) for row in rows)
    base = judged(amounts, B200, "vllm.json.gz", "", ops=ops, unmodelled=missing)
    reason = "models cover 27.8 % of computing time, under 90 %: without one: vllm::moe_forward 69.7 %"
    goodput = replace(
        base.goodput,
        pg=None,
        mfu=None,
        hfu=None,
        pg_min=0.0125,
        pg_max=0.7322,
        reasons=REASONS | {"pg": reason},
    )
    covered = replace(base.quality, shape_coverage=0.278, linked_coverage=0.278)
    return replace(base, goodput=goodput, quality=covered)


def backward(i: int) -> Op:
    """The backward pass of the i-th convolution, each with less to do than the one before."""
    dims = [[10, 64, 8 + i, 56], [10, 64, 8 + i, 56], [64, 64, 3, 3]]
    calls = (4, 780_019 // (i + 1), 36_993_761_280 // (i * i + 1), 97_517_568 // (i + 1))
    found = op(MI300X, 12_907_151, "aten::convolution_backward", dims, calls)
    known = ("shapes", "inferred", "declared", "shapes")[i % 4]
    return replace(found, flops_source=known, recompute_ns=found.time_ns // 3 if i % 2 else 0)


def recomputed() -> Report:
    """Activation checkpointing and padding; two hundred operators, some inferred from neighbours or declared."""
    amounts = {
        "ideal": 177_899,
        "memory_bound": 307_266,
        "kernel_inefficiency": 10_365_892,
        "recompute": 2_051_776,
        "padding": 44_000,
        "unmodelled": 4_318,
        "communication": 32_153_894,
        "unknown": 2_390_825,
    }
    ops = tuple(backward(i) for i in range(200))
    base = judged(amounts, MI300X, "resnet.json.gz", "bf16 peak of MI300X", ops=ops)
    assert base.goodput.mfu is not None
    hfu = replace(base.goodput.mfu, value=0.00445, numerator_ns=211_373)
    covered = replace(base.quality, shape_coverage=0.9997, linked_coverage=0.496)
    return replace(base, goodput=replace(base.goodput, hfu=hfu), quality=covered)


def no_bandwidth() -> Report:
    """A chip without a sourced bandwidth: operators without FLOPs have no roofline; some were above the peak."""
    amounts = {
        "ideal": 198_057_659,
        "kernel_inefficiency": 314_920_341,
        "unmodelled": 62_984_000,
        "unknown": 473_355_000,
    }
    rows = (
        ("aten::cudnn_batch_norm", [[32, 256, 56, 56], [256], [256]], (24, 9_654_000, 0, 4_932_599_808)),
        (
            "aten::cudnn_convolution",
            [[32, 256, 14, 14], [1024, 256, 1, 1]],
            (36, 12_780_000, 118_380_000_000, 800_000_000),
        ),
        ("aten::cat", [[[16, 8], [16, 8]], []], (1, 3_000, 0, None)),
    )
    ops = tuple(op(V100, 575_962_000, name, dims, calls, "float") for name, dims, calls in rows)
    missing = (Unmodelled("aten::cudnn_convolution", 276, 62_984_000, 0.1094),)
    base = judged(amounts, V100, "v100.json", "fp32 peak of V100", ops=ops, unmodelled=missing)
    fault = Warning("above_peak", "aten::cudnn_convolution would have run at 162 % of the chip's peak")
    return replace(base, warnings=(*base.warnings, fault))
