"""Reports to render: plausible figures without a program layer, and the awkward cases."""

from __future__ import annotations

from dataclasses import replace

from mpg_cli.report.model import (
    Collective,
    Device,
    Goodput,
    Kernel,
    LedgerRow,
    NameRule,
    Quality,
    Ratio,
    Report,
    Source,
    Step,
    Totals,
    Warning,  # noqa: A004
    Window,
)

H100 = "NVIDIA H100 80GB HBM3"
NO_SCHEDULER = "no scheduler log was given"
NO_MODEL = "no FLOP model for these kernels"
REASONS = {"sg": NO_SCHEDULER, "mpg": NO_SCHEDULER, "pg": NO_MODEL}
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3>>(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)"
)
BATCH_NORM = (
    "void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>(float, float, float, float, float const*)"
)
LABELS = {
    "productive": ("program", "computing"),
    "communication": ("runtime", "communication, exposed"),
    "communication_wait": ("runtime", "communication, waiting"),
    "memory_copy": ("runtime", "memory copy, exposed"),
    "transient": ("runtime", "start of the profile"),
    "unclassified_busy": ("runtime", "busy, kind unknown"),
    "unknown": ("runtime", "unexplained"),
    "input": ("runtime", "input pipeline"),
    "launch_bound": ("runtime", "launch-bound"),
    "synchronisation": ("runtime", "host synchronisation"),
    "ideal": ("program", "ideal"),
    "memory_bound": ("program", "memory-bound"),
    "kernel_inefficiency": ("program", "kernel inefficiency"),
    "recompute": ("program", "recomputation"),
    "padding": ("program", "padding"),
    "unmodelled": ("program", "computing, no model"),
}


def source(path: str = "trace.json.gz", rank: int | None = None, world_size: int | None = None) -> Source:
    return Source(
        path, "pytorch", "ab" * 32, 12_345_678, rank, world_size, "PyTorch 2.9.0", "node17", 123_456
    )


def device(
    path: str,
    rank: int | None,
    number: int,
    parts: tuple[int, int, int, int],
    *,
    kernels: int,
    name: str | None = H100,
) -> Device:
    """parts: compute, exposed communication, exposed memory, idle, in ns."""
    compute, comm, memory, idle = parts
    busy = compute + comm + memory
    shared = (busy + idle, busy, idle, compute, comm, memory, 0, comm, memory, 0)
    return Device(path, 4711, rank, number, None, name, *shared, kernels, 12, 312)


def steps(
    path: str, rank: int | None, walls: list[int], shares: tuple[float, float, float, float]
) -> tuple[Step, ...]:
    return tuple(
        Step(path, rank, rank or 0, 12 + i, wall, *(int(wall * share) for share in shares))
        for i, wall in enumerate(walls)
    )


def ledger(amounts: dict[str, int], origins: dict[str, str] | None = None) -> tuple[LedgerRow, ...]:
    total = sum(amounts.values()) or 1
    return tuple(
        LedgerRow(
            *LABELS[cause][:1],
            cause,
            LABELS[cause][1],
            ns,
            ns / total,
            (origins or {}).get(cause, "observed"),
        )
        for cause, ns in amounts.items()
    )


def kernel(name: str, kind: str, family: str, count: int, time: int, share: float) -> Kernel:
    return Kernel(name, kind, family, count, time, time // max(count, 1), time // max(count, 1) * 3, share)


KERNELS = (
    kernel(GEMM, "compute", "gemm", 2_106, 171_562_000, 0.291),
    kernel(ELEMENTWISE, "compute", "elementwise", 2_914, 88_120_400, 0.1495),
    kernel(BATCH_NORM, "compute", "normalisation", 318, 74_001_100, 0.1256),
    kernel("Memcpy HtoD (Pinned -> Device)", "memory", "", 12, 12_026_000, 0.0204),
    *(
        kernel(f"sm80_xmma_wgrad_{i}x{i}", "compute", "convolution", 60, 9_000_000 - i, 0.0152)
        for i in range(9)
    ),
)
RULES = (
    NameRule("name: gemm", "compute", 2_106, 171_562_000, 0.291),
    NameRule("kernel, no other rule", "compute", 6_666, 404_400_000, 0.686),
    NameRule("copy or set", "memory", 324, 12_020_000, 0.0204),
)


def quality(windows: tuple[Window, ...], grade: str = "B") -> Quality:
    return Quality(
        grade,
        ("idle time is not explained", "one profile of six steps"),
        windows,
        outside_window_ns=15_576_000,
        carry_over_ns=412_000,
        carry_over_share=0.0007,
        unlinked_share=0.0002,
        graph_share=0.0,
        unknown_name_share=0.0123,
        unknown_names=(kernel("my_fused_thing_v2", "compute", "", 6, 7_231_000, 0.0123),),
        profiler_overhead_ns=3_310_000,
        shape_coverage=None,
    )


def report(
    amounts: dict[str, int],
    sources: tuple[Source, ...],
    devices: tuple[Device, ...],
    windows: tuple[Window, ...],
    **rest: object,
) -> Report:
    capacity = sum(amounts.values())
    computed = sum(ns for cause, ns in amounts.items() if LABELS[cause][0] == "program")
    rg = Ratio(computed / capacity, computed, capacity, "steps on the host clock", 1.0) if capacity else None
    busy = capacity - amounts.get("unknown", 0)
    fields: dict[str, object] = {
        "warnings": (),
        "steps": (),
        "collectives": (),
        "goodput": Goodput(None, rg, None, None, reasons=REASONS),
        "ledger": ledger(amounts),
        "kernels": KERNELS,
        "name_rules": RULES,
        "totals": Totals(
            len(devices), capacity, busy, capacity / 1e9, max((w.steps for w in windows), default=0)
        ),
        "quality": quality(windows),
        "mpg_version": "0.1.0",
    }
    return Report(sources=sources, devices=devices, **{**fields, **rest})  # type: ignore[arg-type]


def single() -> Report:
    path = "runs/resnet50/worker0.1623143089861.pt.trace.json.gz"
    amounts = {"productive": 575_962_000, "memory_copy": 12_020_000, "unknown": 461_335_000}
    walls = [188_105_000, 171_204_000, 170_998_000, 172_340_000, 171_555_000, 175_115_000]
    return report(
        amounts,
        (source(path),),
        (device(path, None, 0, (591_532_000, 0, 12_026_000, 392_919_000), kernels=8_772),),
        (Window(path, "steps", 0, 1_049_317_000, 1, 6, 12_000_000, 3_576_000),),
        steps=steps(path, None, walls, (0.5603, 0.5489, 0.0, 0.0114)),
        ledger=ledger(amounts, {"unknown": "inferred"}),
        warnings=(
            Warning("rank_from_name", "the rank was taken from the file name", 1, path),
            Warning("start_transient", "the first step is 1.09 times the median; it is kept", 1, path),
        ),
    )


def two_ranks() -> Report:
    paths = ["dlrm/worker0_step_12.pt.trace.json", "dlrm/worker1_step_12.pt.trace.json"]
    amounts = {
        "productive": 1_034_000 + 1_246_000,
        "communication_wait": 9_120_300,
        "communication": 7_472_700,
        "memory_copy": 38_000,
        "unknown": 15_445_000,
    }
    names = ("nccl:all_to_all", "nccl:all_reduce", "nccl:broadcast")
    collectives = tuple(
        Collective(
            i,
            names[i % 3],
            "0",
            i,
            "sequence",
            120_000 + i,
            {"0": 0, "1": 905_000 - i * 3_000},
            0,
            905_000,
            524_288,
        )
        for i in range(12)
    )
    return report(
        amounts,
        tuple(source(path, rank, 8) for rank, path in enumerate(paths)),
        (
            device(paths[0], 0, 0, (1_034_000, 5_537_000, 19_000, 6_419_000), kernels=245),
            device(paths[1], 1, 1, (1_246_000, 11_056_000, 19_000, 6_428_000), kernels=310),
        ),
        (
            Window(paths[0], "steps", 0, 14_455_000, 1, 1, 0, 0),
            Window(paths[1], "steps", 0, 18_901_000, 1, 1, 0, 0),
        ),
        steps=steps(paths[0], 0, [14_455_000], (0.456, 0.0715, 0.383, 0.0013))
        + steps(paths[1], 1, [18_901_000], (0.619, 0.0626, 0.5555, 0.001)),
        collectives=collectives,
        warnings=(Warning("missing_rank", "6 of 8 ranks were not given", 6),),
    )


def bounds() -> Report:
    """RG is only known within bounds: the trace holds whole graphs, not kernels."""
    path = "graphs.json"
    amounts = {"unclassified_busy": 310_000_000, "productive": 80_000_000, "unknown": 40_000_000}
    reasons = REASONS | {"rg": "72.1 % of the window are graph replays whose kernels the trace does not name"}
    base = report(
        amounts,
        (source(path, 0),),
        (
            replace(
                device(path, 0, 0, (80_000_000, 0, 0, 40_000_000), kernels=9),
                exposed_other_ns=310_000_000,
                span_ns=430_000_000,
            ),
        ),
        (Window(path, "steps", 0, 430_000_000, 1, 2, 0, 0),),
        steps=steps(path, 0, [214_000_000, 216_000_000], (0.907, 0.186, 0.0, 0.0)),
        warnings=(Warning("graph_level_trace", "the profile was taken per graph, not per kernel", 4, path),),
    )
    return replace(base, goodput=Goodput(None, None, None, None, rg_min=0.186, rg_max=0.907, reasons=reasons))


def no_steps() -> Report:
    """One of many ranks, without steps, with communication that cannot be split."""
    path = "rank1.json"
    amounts = {
        "productive": 620_516_000,
        "communication": 357_343_000,
        "memory_copy": 22_754_000,
        "unknown": 732_352_000,
    }
    return report(
        amounts,
        (source(path, 1),),
        (device(path, 1, 1, (620_516_000, 357_343_000, 22_754_000, 732_352_000), kernels=19_370),),
        (Window(path, "device activity", 0, 1_732_965_000, 1, 0, 0, 0),),
        warnings=(Warning("no_steps", "no ProfilerStep and no repeated module run was found", 1, path),),
    )


def fleet() -> Report:
    """64 devices; rank 37 computes least."""
    walls = [181_000_000 + 1_000 * i for i in range(20)]
    paths = [f"/data/train/step_2000/rank{rank}.json.gz" for rank in range(64)]
    compute = [700_000_000 - (90_000_000 if rank == 37 else 1_000_000 * (rank % 7)) for rank in range(64)]
    devices = tuple(
        device(
            path,
            rank,
            rank % 8,
            (ns, 180_000_000, 20_000_000, 900_000_000 - 700_000_000 - 80_000_000 + (700_000_000 - ns)),
            kernels=9_000,
        )
        for rank, (path, ns) in enumerate(zip(paths, compute, strict=True))
    )
    amounts = {
        "productive": sum(compute),
        "communication_wait": 64 * 110_000_000 + 7,
        "communication": 64 * 70_000_000 + 11,
        "memory_copy": 64 * 20_000_000,
        "transient": 3,
        "unknown": sum(d.idle_ns for d in devices) - 21,
    }
    waits = {str(rank): 0 if rank == 37 else 95_000_000 - rank * 10_000 for rank in range(64)}
    return report(
        amounts,
        tuple(source(path, rank, 64) for rank, path in enumerate(paths)),
        devices,
        tuple(
            Window(path, "steps", 0, d.span_ns, 1, 20, 0, 0) for path, d in zip(paths, devices, strict=True)
        ),
        steps=tuple(s for rank, p in enumerate(paths) for s in steps(p, rank, walls, (0.8, 0.63, 0.1, 0.02))),
        collectives=tuple(
            Collective(i, "nccl:all_reduce", "0", i, "order", 9_000_000, waits, 37, 95_000_000)
            for i in range(48)
        ),
        warnings=tuple(Warning("clock_skew", "the clocks of the hosts differ", 1, path) for path in paths),
    )


def empty() -> Report:
    nothing = Quality("", (), (), 0, 0, 0.0, None, 0.0, 0.0, (), 0, None)
    return Report(
        (), (), (), (), (), Goodput(None, None, None, None), (), (), (), Totals(0, 0, 0, 0.0, 0), nothing
    )
