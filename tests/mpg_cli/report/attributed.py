"""Reports that say why the chips were idle: eight ranks, one of them starved; and an inference engine on one."""

from __future__ import annotations

from dataclasses import replace

from mpg_cli.report.model import (
    Breakdown,
    Collective,
    Communicator,
    Dashboard,
    Evidence,
    Finding,
    Hotspot,
    InferenceStep,
    Price,
    Report,
    Segment,
    Source,
    StepLedger,
    StepOutlier,
    StepSpread,
    Window,
)
from tests.mpg_cli.report.programs import H100, MI300X, judged, op
from tests.mpg_cli.report.reports import device, quality, source, steps

START = 1_365_627_862_757_064_125  # ns; the trace writes it as 1365627862757064.125 microseconds
PATHS = [f"train/rank{rank}.json.gz" for rank in range(8)]
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
STARVED = {
    "ideal": 1_993_000_000,
    "memory_bound": 1_402_000_000,
    "kernel_inefficiency": 1_271_000_000,
    "recompute": 310_000_000,
    "unmodelled": 241_000_000,
    "communication_wait": 1_148_000_000,
    "communication": 904_000_000,
    "input": 731_000_000,
    "launch_bound": 322_000_000,
    "synchronisation": 118_000_000,
    "unknown": 56_000_000,
}
WALL = sum(STARVED.values()) // 8 // 6  # of a step on one rank
FIXES = (
    "More loader workers with deeper prefetch, and pinned memory with asynchronous copies",
    "Decode, tokenise or augment ahead of time, or on the device",
    "Store samples in large sequential shards, cached near the node",
)


def _findings() -> tuple[Finding, ...]:
    where = "rank 3, steps 12 to 17"
    evidence = (
        Evidence("122 ms in the loader before each forward pass on rank 3, 3 ms on the others"),
        Evidence("the longest", PATHS[3], LOADER, 21_716, START, 131_072_500),
        Evidence("rank 3 is last in 40 of 40 collectives because of its input"),
        Evidence("seven ranks wait 1.148 chip-s for it"),
    )
    starved = Finding(
        "input_starvation",
        "high",
        "input",
        "data_starvation",
        "Rank 3's data loader starves it; seven ranks wait in the next all-reduce",
        1_879_000_000,
        1_879 / 8_496,
        1.284,
        where,
        evidence,
        FIXES,
        0.001_305,
    )
    many = (
        (
            "launch_bound",
            "The optimizer launches 2,914 kernels of 4 µs per step",
            322_000_000,
            1.039,
            0.000_224,
        ),
        ("communication", "reduce_scatter is hardly hidden: 12 %", 640_000_000, None, 0.000_444),
        ("synchronisation", "loss.item() drains the queue once per step", 118_000_000, 1.014, 0.000_082),
    )
    others = (
        replace(
            starved,
            id=cause,
            severity="medium",
            cause=cause,
            title=title,
            chip_ns=ns,
            share=ns / 8_496_000_000,
            gain=gain,
            where="",
            evidence=(Evidence("optimizer.step", PATHS[0], "cudaLaunchKernel", 7, START + 875, 4_125),),
            fix=FIXES[:1],
            cost=cost,
        )
        for cause, title, ns, gain, cost in many
    )
    return starved, *others


def _hotspots() -> tuple[Hotspot, ...]:
    places = (
        ("input", LOADER, "train.py(71): fetch", 731_000_000, 6, 3, 131_072_500),
        (
            "launch_bound",
            "Optimizer.step#AdamW.step",
            "adamw.py(209): step",
            280_000_000,
            17_484,
            0,
            21_300_125,
        ),
        ("synchronisation", "aten::item", "train.py(88): log_loss", 118_000_000, 48, 5, 3_100_000),
        ("launch_bound", "aten::copy_", None, 42_000_000, 96, 1, 401_000),
        ("host_code", "host code, before aten::mm", None, 21_000_000, 4, 6, None),
        ("unknown", "no host event", None, 56_000_000, 11, 2, None),
    )
    return tuple(
        Hotspot(
            cause,
            name,
            frame,
            ns,
            ns / 8_496_000_000,
            count,
            PATHS[rank],
            rank,
            None if cause == "unknown" else 21_713 + rank,
            None if cause == "unknown" else START + 1_000_000 * rank,
            longest,
        )
        for cause, name, frame, ns, count, rank, longest in places
    )


def _collective(index: int) -> Collective:
    late, margin = (3, 121_000_000) if index % 6 else (5, 9_000)
    waits = {str(rank): 0 if rank == late else margin + 5_000 * rank for rank in range(8)}
    gradients = index % 2 == 0
    return Collective(
        index,
        "all_reduce" if gradients else "reduce_scatter",
        "dp",
        index,
        "sequence",
        9_000_000 + 10_000 * index,
        waits,
        late,
        margin,
        536_870_912 if gradients else None,
        near_tie=index % 6 == 0,
        transient=index == 0,
        reason="unknown" if index == 0 else "input",
        late_ns=0 if index % 6 == 0 else 118_600_000,
        hidden_ns=60_480_000,
        exposed_ns=12_520_000,
        algo_gbps=59.7 if gradients else None,
        bus_gbps=104.4 if gradients else None,
    )


def _communicators() -> tuple[Communicator, ...]:
    ranks = tuple(range(8))
    return (
        Communicator(
            "reduce_scatter", "dp", 8, ranks, 24, 1_900_000_000, 228_000_000, 1_672_000_000, 700_000_000,
            1_000_000_000, {"3": 20, "5": 4}, None, None, "inter-node",
        ),
        Communicator(
            "all_reduce", "dp", 8, ranks, 24, 2_400_000_000, 2_020_000_000, 380_000_000, 300_000_000,
            148_000_000, {"3": 21, "5": 3}, 12_884_901_888, 104.4, "intra-node",
        ),
    )  # fmt: skip


def _per_step() -> tuple[StepLedger, ...]:
    parts = [ns // 48 for ns in STARVED.values()]
    causes = dict(zip(STARVED, [WALL - sum(parts[1:]), *parts[1:]], strict=True))
    return tuple(
        StepLedger(PATHS[rank], rank, rank, step, WALL, causes) for step in range(12, 18) for rank in (0, 3)
    )


def starved() -> Report:
    """The sketch of a first screen: one rank of eight waits for its input, the others for it."""
    ops = (
        op(
            H100, 5_217_000_000, "aten::addmm", [[5185, 1024], [1024, 1024]], (480, 10**9, 4 * 10**14, 10**11)
        ),
    )
    base = judged(STARVED, H100, PATHS[0], "bf16 peak of H100 SXM", ops=ops)
    windows = tuple(Window(path, "steps", START, START + WALL * 6, 1, 6, 0, 0) for path in PATHS)
    causes = {cause: ns // 8 for cause, ns in STARVED.items()}
    return replace(
        base,
        sources=tuple(source(path, rank, 8) for rank, path in enumerate(PATHS)),
        devices=tuple(
            device(path, rank, rank % 8, (652_125_000, 256_500_000, 0, 153_375_000), kernels=9_000)
            for rank, path in enumerate(PATHS)
        ),
        totals=replace(base.totals, chips=8, steps=48),
        quality=replace(
            quality(windows, "A"),
            grade_reasons=("one profile of six steps",),
            shape_coverage=0.972,
            linked_coverage=0.972,
        ),
        steps=tuple(
            s
            for rank, path in enumerate(PATHS)
            for s in steps(path, rank, [WALL] * 5 + [WALL + 9_000_000], (0.9, 0.61, 0.2, 0.0))
        ),
        collectives=tuple(_collective(i) for i in range(48)),
        findings=_findings(),
        hotspots=_hotspots(),
        dashboard=Dashboard(
            0.993, 0.241, 0.612, None, 0.98, 0.0, {"occupancy": "the trace does not estimate it"}
        ),
        communicators=_communicators(),
        step_spread=StepSpread(48, WALL, 1_200_000, WALL - 2_000_000, WALL + 7_000_000, WALL + 9_000_000),
        outliers=(StepOutlier(PATHS[3], 3, 3, 17, WALL + 9_000_000, 9_000_000, "input", 8_750_000),),
        per_step=_per_step(),
        segments=tuple(
            Segment(
                "rank",
                str(rank),
                sum(causes.values()),
                sum(causes.values()),
                652_125_000,
                249_125_000,
                causes,
            )
            for rank in range(8)
        ),
        price=Price(2.5, 1_024),
    )


LAYER = "LlamaModel_0 / LlamaDecoderLayer_0"
MODULES = (
    ("LlamaModel_0", None, 0, 480_000_000, 1_000_000),
    (LAYER, "LlamaModel_0", 1, 300_000_000, 20_000_000),
    (f"{LAYER} / LlamaMLP_0", LAYER, 2, 200_000_000, 200_000_000),
    (f"{LAYER} / LlamaAttention_0", LAYER, 2, 80_000_000, 80_000_000),
    ("LlamaModel_0 / LlamaRMSNorm_0", "LlamaModel_0", 1, 179_000_000, 179_000_000),
    ("(no module)", None, 0, 20_000_000, 20_000_000),
)


def _breakdown() -> tuple[Breakdown, ...]:
    modules = tuple(
        Breakdown(
            "module",
            key,
            parent,
            depth,
            300,
            290,
            incl,
            excl,
            incl - 5_000_000,
            1_000_000,
            4_000_000,
            0,
            incl / 5e8,
        )
        for key, parent, depth, incl, excl in MODULES
    )
    stream = Breakdown(
        "stream", "7", None, 0, 900, 880, 500_000_000, 500_000_000, 490_000_000, 0, 10_000_000, 0, 1.0
    )
    return (*modules, stream)


def _engine() -> tuple[InferenceStep, ...]:
    path = "sglang.json.gz"
    prefill = InferenceStep(
        path,
        0,
        0,
        "step[EXTEND bs=15 toks=15360]",
        "prefill",
        15,
        15_360,
        28_000_000,
        27_960_000,
        27_900_000,
        27_500_000,
    )
    return (
        *(
            replace(
                prefill,
                name=f"step[DECODE bs={i}]",
                phase="decode",
                requests=i,
                tokens=i,
                host_ns=9_000_000,
                device_ns=8_000_000 + i,
                busy_ns=7_000_000,
                compute_ns=6_500_000,
            )
            for i in range(1, 13)
        ),
        prefill,
        replace(
            prefill,
            name="execute_diffusion_1_64x64",
            phase="diffusion",
            requests=None,
            tokens=None,
            device_ns=None,
            busy_ns=None,
            compute_ns=None,
        ),
    )


def serving() -> Report:
    """An engine on one device: nothing to fix but what is not explained; communication of one rank alone."""
    amounts = {
        "ideal": 160_000_000,
        "memory_bound": 330_000_000,
        "communication": 4_000_000,
        "unknown": 494_000_000,
    }
    ops = (
        op(MI300X, 490_000_000, "aten::mm", [[15360, 4096], [4096, 6144]], (36, 10**7, 2 * 10**12, 10**9)),
    )
    base = judged(amounts, MI300X, "sglang.json.gz", "bf16 peak of MI300X", ops=ops)
    alone = Communicator(
        "all_reduce", None, None, (0,), 3, 9_000_000, 5_000_000, 4_000_000, None, None, {}, 94_500_000, 12.99,
        "unknown", "only rank 0 was given",
    )  # fmt: skip
    return replace(
        base,
        sources=(Source("sglang.json.gz", "pytorch", "ab" * 32, 1_000, 0, 8),),
        devices=(replace(base.devices[0], comm_ns=9_000_000, exposed_comm_ns=4_000_000, compute_ns=996_000),),
        inference=_engine(),
        breakdown=_breakdown(),
        communicators=(alone,),
        dashboard=Dashboard(
            0.501, 0.0, None, 0.352, 0.66, 0.957, {"sm_activity": "no launch grids in the trace"}
        ),
    )
