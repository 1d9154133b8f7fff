"""PG from the FLOPs of whole programs before optimisation. On Tiny, 1000 of them take a nanosecond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mpg_parsers.errors import UndecidedError
from tests.mpg_cli.datasets import Row, comm, op, source, step
from tests.mpg_cli.goodput.judged import causes, judge, told

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS = [step(1, 0, 100)]
NO_LOOPS: Row = {"repeated_flops": 0, "dtype": "bf16", "partitions": 1, "replicas": 1, "unknown_loops": 0}


def program(number: str, flops: int | None, **more: Any) -> Row:
    """A program with `flops` in all, of which more.repeated_flops are computed again."""
    about = {"program_id": number, "name": f"jit_{number}", "flops": flops, "all_flops": flops}
    return about | (NO_LOOPS if flops is not None else {}) | more


def run(number: str | None, start: int, end: int, device: int = 0) -> Row:
    return {
        "device": device, "name": f"jit_{number}", "program_id": number, "start_ns": start, "end_ns": end,
    }  # fmt: skip


def profile(
    ops: Sequence[Row], programs: Sequence[Row], runs: Sequence[Row], chip: Row | str = "Tiny", **more: Any
) -> Any:
    made = source(ops, **({"format": "nsys-jax", "steps": STEPS} | more))
    for row in made["devices"]:
        row.update({"name": chip} if isinstance(chip, str) else chip)
    return made | {"programs": list(programs), "program_runs": list(runs)}


def single(flops: int = 40_000, chip: Row | str = "Tiny", **about: Any) -> Any:
    """One run of 80 of the 100 ns, computing all the time."""
    return profile([op(0, 80)], [program("a", flops, **about)], [run("a", 0, 80)], chip)


def test_two_programs_on_two_devices() -> None:
    """Device 0: a takes (80,000 - 20,000) / (2 * 3) FLOPs, b 4 of its 5 parts: 10 + 40 of 90 ns. Device 1: a, of 30."""
    programs = [
        program("a", 80_000, repeated_flops=20_000, partitions=2, replicas=3),
        program("b", 50_000, repeated_flops=None, partitions=None, replicas=None),
    ]
    runs = [run("a", 0, 50), run("b", 60, 110), run("a", 10, 40, 1), run("b", 200, 300, 1)]
    found = judge(profile([op(0, 50), op(60, 50), op(10, 30, device=1)], programs, runs))
    assert found.rows is not None
    assert sorted(found.rows.select("subject", "cause", "chip_ns").rows()) == [
        (0, "ideal", 50), (0, "unmodelled", 40), (1, "ideal", 10), (1, "unmodelled", 20),
    ]  # fmt: skip
    assert (found.reason, found.ideal_ns, found.mfu_ns, found.hfu_ns) == ("", 60, 60, None)
    what = "FLOPs of the programs before optimisation, bf16 peak of Tiny"
    assert (found.basis, found.peak_basis, found.notices) == (what, what, ())


def test_hosts_have_programs_of_their_own() -> None:
    """The same number is another program in another file."""
    two = single(20_000) | {"sources": [single()["sources"][0] | {"path": "b"}]}
    assert causes(judge(single(), two)) == {"ideal": 40 + 20, "unmodelled": 40 + 60}


def test_runs_of_no_flops_and_no_time() -> None:
    programs = [program("a", 40_000), program("b", 0, dtype=None), program("c", 7000)]
    runs = [run("a", 0, 60), run("b", 60, 80), run("c", 90, 90)]
    found = judge(profile([op(0, 80)], programs, runs))
    assert (causes(found), found.reason) == ({"ideal": 47, "unmodelled": 33}, "")


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([run("a", 0, 99), run("x", 99, 100)], ""),
        (
            [run("a", 0, 98), run("x", 98, 100)],
            "programs with known FLOPs make 98.0 % of the time in programs",
        ),
        (
            [run("a", 0, 50), run(None, 50, 60)],
            "programs with known FLOPs make 83.3 % of the time in programs",
        ),
        ([run("a", 0, 50), run("x", 100, 900)], ""),
        ([run("a", 0, 50), run("x", 0, 50, 4)], ""),
        ([run("a", 200, 250)], "no program ran in the window"),
        ([], "no program ran in the window"),
    ],
)
def test_runs_of_unknown_programs(runs: list[Row], reason: str) -> None:
    found = judge(profile([op(0, 100)], [program("a", 1000), program("x", None)], runs))
    assert (found.reason, found.rows is None) == (reason, bool(reason))


@pytest.mark.parametrize(
    ("made", "options", "reason"),
    [
        (single(dtype="f64"), {}, "no peak rate for f64 of Tiny is sourced"),
        (single(dtype=None), {}, "no peak rate for its type of Tiny is sourced"),
        (single(dtype="token"), {}, "no peak rate for token of Tiny is sourced"),
        (single(chip="Blind"), {"basis": "achievable"}, "no sustained rate of Blind is sourced, which --pg-basis"),
        (single(), {"basis": "roofline"}, "the basis roofline needs bytes, which programs before optimisation do not"),
        (single(100_000), {}, "the programs' FLOPs would need 125 % of the chip's rate: is the number of devices"),
        (profile([comm(0, 80)], [program("a", 9)], [run("a", 0, 80)]), {}, "no computing in the window"),
    ],
)  # fmt: skip
def test_what_cannot_be_told(made: Any, options: Any, reason: str) -> None:
    found = judge(made, **options)
    assert found.reason.startswith(reason)
    assert (found.rows, found.ideal_ns) == (None, 0)


def test_a_tpu_multiplies_float_in_bf16() -> None:
    tpu = {"name": "Small TPU", "peak_flops": 10**12}
    found = judge(single(dtype="f32", chip=tpu))
    assert (found.ideal_ns, found.basis) == (
        40, "FLOPs of the programs before optimisation, bf16 peak of Small TPU (from the trace)",
    )  # fmt: skip
    assert judge(single(dtype="f32")).reason == "no peak rate for f32 of Tiny is sourced"


def test_sustained_rates_and_padding() -> None:
    found = judge(single(32_000), basis="achievable", useful_tokens=0.25)
    assert causes(found) == {"ideal": 16, "padding": 48, "unmodelled": 16}
    assert (found.ideal_ns, found.mfu_ns) == (16, 8)
    assert found.basis == "FLOPs of the programs before optimisation, bf16 achievable of Tiny"


def test_caveats() -> None:
    """Of programs that ran in the window only."""
    programs = [
        program("a", 1000, opaque='["attention"]', unknown_loops=2), program("b", 1000, unknown_loops=1),
        program("c", 1000, opaque='["sort"]', unknown_loops=50),
    ]  # fmt: skip
    runs = [run("a", 0, 30), run("a", 30, 60), run("b", 60, 80), run("c", 200, 300)]
    found = judge(profile([op(0, 80)], programs, runs))
    assert [(notice.kind, notice.message) for notice in found.notices] == [
        (
            "program_flops",
            "programs call custom code whose FLOPs are not known (1 of them): PG may be higher",
        ),
        ("program_flops", "3 loops with an unknown number of passes are counted once: PG may be higher"),
    ]


OPERATION = {
    "hlo": 0, "program_id": "a", "program": "jit_a", "name": "fusion.1", "category": "loop fusion", "flops": 30_000,
    "dtype": "bf16", "bytes": 0, "flops_source": "hlo", "opaque": False, "recompute": False,
}  # fmt: skip


def test_declared_flops_go_before_programs_and_programs_before_operations() -> None:
    made = profile([op(0, 80, hlo=0)], [program("a", 40_000)], [run("a", 0, 80)]) | {"hlo_ops": [OPERATION]}
    without = made | {"programs": [program("a", None)]}
    found = [judge(made, flops_per_step=20_000), judge(made), judge(without)]
    assert [(one.basis, one.ideal_ns) for one in found] == [
        ("declared FLOPs, bf16 peak of Tiny", 20),
        ("FLOPs of the programs before optimisation, bf16 peak of Tiny", 40),
        ("bf16 peak of Tiny, FLOPs of the compiled programs (HLO)", 30),
    ]
    with pytest.raises(UndecidedError, match="needs steps"):
        judge(made | {"steps": []}, flops_per_step=20_000)


def test_operations_say_nothing_where_programs_are_known() -> None:
    """Opaque operations neither: the programs' FLOPs hold what XLA saw before it called them."""
    made = profile([op(0, 80, hlo=0)], [program("a", 40_000)], [run("a", 0, 80)])
    found = judge(made | {"hlo_ops": [OPERATION | {"opaque": True}]})
    assert (told(found), found.ops.is_empty(), found.unmodelled.is_empty()) == ({}, True, True)
