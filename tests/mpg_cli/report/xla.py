"""Reports on profiles of XLA: plausible, with hostile names, and with nothing in them."""

from __future__ import annotations

from dataclasses import replace

from mpg_cli.report.model import (
    Report,
    Xla,
    XlaAsync,
    XlaIdle,
    XlaOperation,
    XlaProgram,
    XlaTotal,
)
from tests.mpg_cli.report.reports import single

TRAIN = ("jit_train_step", "12190760917235803885")
WHOLE = 2_000_000_000


def operation(op: str, category: str, time_ns: int, **more: object) -> XlaOperation:
    base = XlaOperation(
        *TRAIN, op, category, f"jit(train_step)/{op}", "models/llama.py:214", "compute", 100, time_ns,
        time_ns / WHOLE, 0, 1_000, None, 4_000_000, 0.0, 812.4, "hlo", opaque=False, recompute=False,
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


OPERATIONS = (
    operation("fusion.12", "convolution fusion", 900_000_000, flops=10**9, dtype="bf16", tflops=431.2),
    operation(
        "custom-call.3", "custom-call", 600_000_000, flops=None, tflops=None, gbps=None, flops_source=None, opaque=True,
    ),
    operation(
        "fusion.12.remat", "convolution fusion", 300_000_000, flops=10**9, dtype="bf16", tflops=398.0, recompute=True,
    ),
    operation("copy-done.4", "copy-done", 120_000_000, framework_op=None, location=None, activity="memory", gbps=None),
    *(operation(f"add_fusion.{i}", "loop fusion", 8_000_000) for i in range(10)),
)  # fmt: skip
FOUND = Xla(
    time_ns=WHOLE,
    idle_between=XlaIdle(0.2, 500_000_000, 2_500_000_000),
    idle_in_profile=XlaIdle(0.5, 2_000_000_000, 4_000_000_000),
    opaque_ns=600_000_000,
    opaque_share=0.3,
    recompute_ns=300_000_000,
    recompute_share=0.15,
    infeed_ns=20_000_000,
    outfeed_ns=0,
    operations=OPERATIONS,
    categories=(
        XlaTotal("convolution fusion", 200, 1_200_000_000, 0.6),
        XlaTotal("custom-call", 100, 600_000_000, 0.3),
        XlaTotal("copy-done", 100, 120_000_000, 0.06),
        XlaTotal("loop fusion", 1_000, 80_000_000, 0.04),
    ),
    asynchronous=(
        XlaAsync(TRAIN[0], "copy-start.4", "copy-start", 100, 400_000_000, 280_000_000, 120_000_000),
    ),
    opaque=tuple(XlaTotal(f"jit(train_step)/attention_{i}/pallas_call", 20, 120_000_000, 0.06) for i in range(5)),
    programs=(
        XlaProgram(*TRAIN, 100, 2_010_000_000, 13_000_000, 1_997_000_000, 0.9985),
        XlaProgram("jit_init", "7", 1, 3_500_000, 500_000, 3_000_000, 0.0015),
    ),
    left_out={"operations": 986},
)  # fmt: skip


def tpu() -> Report:
    return replace(single(), xla=FOUND)


def gpu() -> Report:
    """A file without runs of programs, on a device for which idle time has no such definition."""
    reasons = dict.fromkeys(("idle_between", "idle_in_profile"), "kernels of several streams can run at once")
    programs = (XlaProgram(*TRAIN, None, None, None, WHOLE, 1.0),)
    found = replace(
        FOUND, idle_between=None, idle_in_profile=None, reasons=reasons, programs=programs, asynchronous=(), opaque=(),
        opaque_ns=0, recompute_ns=0, infeed_ns=0,
    )  # fmt: skip
    return replace(single(), xla=found)


def named(*names: str) -> Report:
    """The given strings wherever a string comes from the input."""
    text = names[0]
    found = Xla(
        10, XlaIdle(0.5, 1, 2), None, 5, 0.5, 5, 0.5, 5, 5,
        tuple(
            XlaOperation(n, n, n, n, n, n, n, 1, 10, 0.1, 1, 1, n, 1, 1.0, 1.0, n, opaque=True, recompute=True)
            for n in names
        ),
        tuple(XlaTotal(n, 1, 10, 0.1) for n in names),
        tuple(XlaAsync(n, n, n, 1, 10, 5, 5) for n in names),
        tuple(XlaTotal(n, 1, 10, 0.1) for n in names),
        tuple(XlaProgram(n, n, 1, 10, 5, 10, 0.1) for n in names),
        {text: 1},
        {"idle_in_profile": text},
    )  # fmt: skip
    return replace(single(), xla=found)


def zeros() -> Report:
    """Everything there, everything zero or missing."""
    nothing = XlaOperation(
        None, None, "", "", None, None, "", 0, 0, 0.0, None, None, None, None, None, None, None,
        opaque=False, recompute=False,
    )  # fmt: skip
    found = Xla(
        0, XlaIdle(0.0, 0, 0), None, 0, 0.0, 0, 0.0, 0, 0, (nothing,), (XlaTotal("", 0, 0, 0.0),),
        (XlaAsync(None, "", "", 0, 0, 0, 0),), (), (XlaProgram(None, None, None, None, None, 0, 0.0),),
    )  # fmt: skip
    return replace(single(), xla=found)
