"""What XLA's own tools show, on its way into the report."""

from __future__ import annotations

import polars as pl

from mpg_cli.goodput.xla import OPERATION, PROGRAM, Idle, Xla
from mpg_cli.report.model import XlaAsync, XlaIdle, XlaProgram, XlaTotal
from mpg_cli.rows.xla import MOST, MOST_OPAQUE, xla

NOTHING = pl.DataFrame()
OPERATION_ROW = dict.fromkeys(OPERATION) | {
    "name": "fusion.1", "category": "loop fusion", "opaque": False, "recompute": True, "activity": "compute",
    "count": 2, "time_ns": 30, "tflops": None, "gbps": 2.5, "program": "jit_f",
}  # fmt: skip


def found(times: int = 1) -> Xla:
    return Xla(
        operations=pl.DataFrame([OPERATION_ROW] * times),
        categories=pl.DataFrame({"category": ["loop fusion"], "count": [2], "time_ns": [30]}),
        asynchronous=pl.DataFrame(
            [("7", "jit_f", "copy-start", "copy-start", 1, 10, 4, 6)],
            [*PROGRAM, "name", "category", "count", "time_ns", "hidden_ns", "exposed_ns"],
            orient="row",
        ),
        opaque=pl.DataFrame({"name": ["attention"] * times, "count": [1] * times, "time_ns": [10] * times}),
        programs=pl.DataFrame(
            [("7", "jit_f", 30, 2, 40, 10)],
            [*PROGRAM, "operations_ns", "runs", "time_ns", "gap_ns"],
            orient="row",
        ),
        time_ns=40,
        infeed_ns=1,
        outfeed_ns=2,
        recompute_ns=30,
        idle_between=Idle(1, 4),
        idle_in_profile=None,
        reasons={"idle_in_profile": "not stated"},
    )


def test_none_stays_none() -> None:
    assert xla(None) is None


def test_shares_are_of_the_self_time_of_all_operations() -> None:
    made = xla(found())
    assert made is not None
    (operation,) = made.operations
    assert (operation.op, operation.program, operation.program_id) == ("fusion.1", "jit_f", None)
    assert (operation.count, operation.time_ns, operation.share) == (2, 30, 0.75)
    assert (operation.tflops, operation.gbps, operation.recompute) == (None, 2.5, True)
    assert made.categories == (XlaTotal("loop fusion", 2, 30, 0.75),)
    assert made.opaque == (XlaTotal("attention", 1, 10, 0.25),)
    assert made.asynchronous == (XlaAsync("jit_f", "copy-start", "copy-start", 1, 10, 4, 6),)
    assert made.programs == (XlaProgram("jit_f", "7", 2, 40, 10, 30, 0.75),)
    assert (made.opaque_ns, made.opaque_share, made.recompute_share) == (10, 0.25, 0.75)
    assert (made.idle_between, made.idle_in_profile) == (XlaIdle(0.25, 1, 4), None)
    assert (made.reasons, made.left_out) == ({"idle_in_profile": "not stated"}, {})


def test_long_lists_are_cut_and_say_so() -> None:
    made = xla(found(MOST + 5))
    assert made is not None
    assert (len(made.operations), len(made.opaque)) == (MOST, MOST_OPAQUE)
    assert made.left_out == {"operations": 5, "opaque": MOST + 5 - MOST_OPAQUE}
    assert made.opaque_ns == 10 * (MOST + 5)
