"""When PG is given, and what it is held against, on traces for paper.

Of the chips in `judged`, Tiny does 1000 bf16 FLOP and moves 100 bytes in a nanosecond; a product is 2000 FLOP and
600 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput.operators import EVALUATE
from tests.mpg_cli.datasets import comm, step
from tests.mpg_cli.goodput.judged import (
    causes,
    file,
    judge,
    kernel,
    launch,
    operator,
    product,
    products,
    told,
    with_opaque,
)
from tests.mpg_cli.goodput.models.calls import bf, t
from tests.mpg_cli.goodput.oracles import moments

if TYPE_CHECKING:
    from tests.mpg_cli.datasets import Row


def test_an_account() -> None:
    found = judge(products(10, 30))
    assert causes(found) == {"ideal": 4, "memory_bound": 8, "kernel_inefficiency": 28}
    assert (found.reason, found.ideal_ns, found.mfu_ns, found.hfu_ns) == ("", 4, 4, 4)
    assert (found.coverage, found.linked_coverage) == (1, 1)
    assert (found.basis, found.peak_basis) == ("bf16 peak of Tiny", "bf16 peak of Tiny")
    assert found.ceilings == (("Tiny", "bf16", 1.0, 100.0, "mpg.toml", "mpg.toml"),)
    assert told(found).keys() == {"padding_unknown"}


@pytest.mark.parametrize(
    ("basis", "expected"),
    [
        ("peak", {"ideal": 4, "memory_bound": 8, "kernel_inefficiency": 28}),
        ("roofline", {"ideal": 12, "kernel_inefficiency": 28}),
        ("achievable", {"ideal": 8, "memory_bound": 4, "kernel_inefficiency": 28}),
    ],
)
def test_bases(basis: str, expected: dict[str, int]) -> None:
    """MFU and HFU are of the peak, whatever PG is held against."""
    found = judge(products(10, 30), basis=basis)
    assert causes(found) == expected
    assert (found.ideal_ns, found.mfu_ns, found.hfu_ns) == (expected["ideal"], 4, 4)
    assert (found.coverage, found.basis_coverage) == (1, 1)
    assert (found.basis, found.peak_basis) == (f"bf16 {basis} of Tiny", "bf16 peak of Tiny")


@pytest.mark.parametrize(
    ("basis", "reason"),
    [
        ("roofline", "no memory bandwidth of Blind is sourced, which --pg-basis roofline needs"),
        ("achievable", "no sustained rate of Blind is sourced, which --pg-basis achievable needs"),
    ],
)
def test_a_basis_without_a_figure_gives_no_pg(basis: str, reason: str) -> None:
    found = judge(products(10, chip="Blind"), products(10), basis=basis)
    assert (found.reason, found.rows) == (reason, None)


def test_a_type_without_a_sustained_rate_is_not_judged() -> None:
    event = operator(500, 1, "aten::mm", t(10, 10), t(10, 10), external_id=7)
    assert (
        judge(file([kernel(500, 10, 7)], [event]), basis="achievable").reason
        == "no operator that ran has a model"
    )


def test_the_roofline_covers_only_what_has_bytes() -> None:
    gather = operator(500, 1, "aten::index", bf(4, 4), [bf(4)], external_id=7)
    event, ran = product(0, 95)
    found = judge(file([ran, kernel(500, 5, 7)], [event, gather]), basis="roofline")
    assert (found.reason, found.coverage, found.basis_coverage) == ("", 1, 0.95)
    assert causes(found)["unmodelled"] == 5


def test_devices_have_their_own_chips() -> None:
    found = judge(products(10), products(10, chip="Blind"))
    assert causes(found) == {"ideal": 3, "memory_bound": 4, "kernel_inefficiency": 13}
    assert found.basis == "bf16 peak of Blind, Tiny"
    assert [ceiling[:4] for ceiling in found.ceilings] == [
        ("Tiny", "bf16", 1.0, 100.0),
        ("Blind", "bf16", 2.0, None),
    ]
    assert told(found)["no_bandwidth"].startswith("no memory bandwidth of Blind is sourced")


# -------------------------------------------------------------------------------------- why PG may be null


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([products(10, chip="Acme Z9")], "the chip is not known: 'Acme Z9' is not in the catalogue; say --chip NAME"),
        ([products(10, chip="")], "the name does not tell the chip"),
        ([products(10), products(10, chip="Z9")], "'Z9' is not in the catalogue"),
        ([file([kernel(0, 10)], [])], "the trace holds no operators: profile with ProfilerActivity.CPU"),
        ([file([kernel(0, 10, 1)], [operator(0, 1, "aten::mm", external_id=1)])],
         "no operand shapes were recorded: profile with record_shapes=True"),
        ([file([kernel(0, 10)], [product(0, 1)[0]])], "no kernel can be linked to an operator (graph replay"),
        ([file([kernel(0, 10, 1)], [operator(0, 1, "acme::x", bf(2), external_id=1)])],
         "no operator that ran has a model"),
        ([file([comm(0, 10)], [])], "no computing in the window"),
        ([products(0)], "no computing in the window"),
        ([products(10, steps=[step(1, 40, 90)])], "no computing in the window"),
    ],
)  # fmt: skip
def test_reasons(files: list[Any], words: str) -> None:
    found = judge(*files)
    assert words in found.reason
    assert found.rows is None


HUGE = 3_000_000_000


def test_shapes_that_cannot_be_real_break_nothing() -> None:
    """4.5e18 FLOP would take 52 days on Tiny and 1.8e19 bytes even longer: a fault, and a kernel of memory alone."""
    product_ = operator(0, 1, "aten::mm", bf(1_500_000, 1_000_000), bf(1_000_000, 1_500_000), external_id=1)
    sum_ = operator(10, 1, "aten::add", bf(HUGE, 500_000_000), bf(HUGE, 500_000_000), "1", external_id=2)
    wide = operator(20, 1, "aten::add", bf(HUGE, HUGE), bf(HUGE, HUGE), "1", external_id=3)
    found = judge(file([kernel(0, 10, 1), kernel(20, 90, 2), kernel(120, 5, 3)], [product_, sum_, wide]))
    assert causes(found) == {"memory_bound": 90, "unmodelled": 15}
    assert "above_peak" in told(found)


def test_the_chip_can_be_named() -> None:
    found = judge(products(10, chip="Acme Z9"), chip="Tiny")
    assert (found.reason, found.basis) == ("", "bf16 peak of Tiny")
    assert judge(products(10), chip="blind").basis == "bf16 peak of Blind"


def test_too_little_is_covered() -> None:
    found = judge(with_opaque(10, 90))
    assert found.reason == (
        "models cover 10.0 % of computing time, under 90 %: without one: acme::moe 90.0 %; "
        'declare it in mpg.toml: [[model]] op = "acme::moe"'
    )
    assert causes(found) == {"ideal": 2, "memory_bound": 4, "kernel_inefficiency": 4, "unmodelled": 90}
    assert found.unmodelled.select("op", "time_ns").rows() == [("acme::moe", 90)]


def test_the_line_that_declares_an_operator_is_toml() -> None:
    reason = judge(with_opaque(10, 90, 'x::"y\\')).reason
    assert reason.endswith(r'[[model]] op = "x::\"y\\"')


@pytest.mark.parametrize(
    "found",
    [
        with_opaque(10, 90, "aten::mm"),  # has a model, but no shapes
        file([product(0, 10)[1], kernel(500, 90)], [product(0, 10)[0]]),  # no operator
    ],
)
def test_what_a_declaration_does_not_help_has_no_such_hint(found: Any) -> None:
    assert "mpg.toml" not in judge(found).reason


@pytest.mark.parametrize(("opaque", "given"), [(10, True), (11, False)])
def test_nine_tenths_are_enough(opaque: int, given: bool) -> None:
    found = judge(with_opaque(90, opaque))
    assert (found.reason == "") == given
    assert found.coverage == 90 / (90 + opaque)


def test_a_declared_model_covers() -> None:
    model = {"op": "acme::moe", "flops": "20000", "dtype": "c10::BFloat16"}
    found = judge(with_opaque(10, 90), models=[model])
    assert (found.reason, found.ideal_ns, found.coverage) == ("", 22, 1)
    assert found.ops.filter(found.ops["operator"] == "acme::moe")["flops_source"].to_list() == ["declared"]


def test_inferred_kernels_are_told_from_linked_ones() -> None:
    event, ran = product(50, 10)
    found = judge(file([kernel(0, 30), ran], [event]))
    assert (found.coverage, found.linked_coverage, found.ideal_ns) == (1, 0.25, 4)


# ------------------------------------------------------------------------------------------- whatever comes


some_operator = st.builds(
    lambda start, dur, name, sizes, id_, sequence: operator(
        start, dur, name, bf(sizes[0], sizes[1]), bf(sizes[1], sizes[2]), external_id=id_, sequence=sequence
    ),
    st.integers(0, 40),
    st.integers(0, 40),
    st.sampled_from(["aten::mm", "aten::linear", "aten::add", "acme::x", EVALUATE]),
    st.tuples(*[st.sampled_from([0, 1, 10, 1000])] * 3),
    st.integers(1, 6),
    st.none() | st.integers(1, 3),
)
some_kernel = st.builds(
    lambda start, dur, id_, correlation, name, more: kernel(
        start, dur, id_, name, correlation=correlation, **more
    ),
    st.integers(0, 60),
    st.integers(0, 30),
    st.none() | st.integers(0, 7),
    st.none() | st.integers(0, 7),
    st.sampled_from(["gemm", "add"]),
    st.fixed_dictionaries({"stream": st.integers(7, 8), "device": st.integers(0, 1)}),
)
some_launch = st.builds(launch, st.integers(0, 60), st.integers(0, 7))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(some_kernel, min_size=1, max_size=8),
    st.lists(some_operator, max_size=6),
    st.lists(some_launch, max_size=6),
    st.sampled_from(["peak", "roofline", "achievable"]),
    st.none() | st.floats(0, 1),
)
def test_computing_is_accounted_for(
    kernels: list[Row], ops: list[Row], launches: list[Row], basis: str, useful: float | None
) -> None:
    found = judge(file(kernels, [*ops, *launches]), basis=basis, useful_tokens=useful)
    if found.rows is None:
        assert found.reason
        return
    hulls = [(k["device"], k["start_ns"], k["start_ns"] + k["dur_ns"]) for k in kernels]
    assert sum(causes(found).values()) == sum(map(len, moments(hulls).values()))
    assert min(causes(found).values()) > 0
    assert found.coverage is not None
    assert 0 <= found.coverage <= 1
    assert 0 <= found.mfu_ns <= (found.hfu_ns or 0)
    assert (found.reason == "") == (found.basis_coverage is not None and found.basis_coverage >= 0.9)
