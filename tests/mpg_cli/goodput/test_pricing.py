"""Which operator pays for a kernel, with what share, and what that takes on its chip: by hand.

Of the chips in `judged`, Tiny does 1000 bf16 FLOP and moves 100 bytes in a nanosecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mpg_cli.goodput import judging
from tests.mpg_cli.goodput.judged import ADD, MM, file, judge, kernel, launch, operator, price, product
from tests.mpg_cli.goodput.models.calls import bf, t

if TYPE_CHECKING:
    from tests.mpg_cli.datasets import Row


def charged(*files: dict[str, Any], **options: Any) -> list[tuple[str | None, int | None]]:
    """(operator, FLOPs) of each kernel in order of start."""
    rows = price(*files, **options).select("operator", "flops").iter_rows()
    return [(op, None if flops is None else round(flops)) for op, flops in rows]


# ---------------------------------------------------------------------------------------------- linking

MM_OP = operator(0, 10, "aten::mm", *MM, external_id=5)


@pytest.mark.parametrize(
    ("ops", "events", "linked"),
    [
        pytest.param([kernel(20, 5, 5)], [MM_OP], [True], id="by external id"),
        pytest.param([kernel(20, 5, correlation=9)], [MM_OP, launch(4, 9)], [True], id="by correlation"),
        pytest.param([kernel(20, 5, 9, correlation=9)], [MM_OP, launch(4, 9)], [True],
                     id="an id that is the correlation: by correlation"),
        pytest.param([kernel(20, 5, 5, correlation=5)], [MM_OP], [False], id="an id that is the correlation"),
        pytest.param([kernel(20, 5, 5, correlation=9)], [MM_OP, operator(20, 5, "aten::add", *ADD), launch(21, 9)],
                     [True], id="the id goes before the launch"),
        pytest.param([kernel(20, 5, 77, correlation=9)], [MM_OP, launch(4, 9)], [True], id="an id of nothing"),
        pytest.param([kernel(20, 5, 3)], [MM_OP, launch(4, None, external_id=3)], [True],
                     id="by the launch's id, without correlations"),
        pytest.param([kernel(20, 5, correlation=9)], [MM_OP, launch(11, 9)], [False], id="launched by no operator"),
        pytest.param([kernel(20, 5, correlation=0)], [MM_OP, launch(4, 0)], [False], id="0 is no correlation"),
        pytest.param([kernel(20, 5, 0)], [operator(0, 10, "aten::mm", *MM, external_id=0)], [False],
                     id="0 is no id"),
        pytest.param([kernel(20, 5), kernel(30, 5)], [MM_OP], [False, False], id="no ids"),
        pytest.param([kernel(20, 5, correlation=9), kernel(25, 5, correlation=9)],
                     [MM_OP, launch(4, 9, "cudaGraphLaunch")], [True, True], id="a graph inside an operator"),
        pytest.param([kernel(20, 5, correlation=9, graph_node=1), kernel(25, 5, correlation=9, graph_node=2)],
                     [MM_OP, launch(14, 9, "cudaGraphLaunch")], [False, False], id="a graph outside"),
    ],
)  # fmt: skip
def test_linking(ops: list[Row], events: list[Row], linked: list[bool]) -> None:
    assert [op == "aten::mm" for op, _ in charged(file(ops, events))] == linked


def test_ids_of_another_file_are_no_links() -> None:
    first, second = file([kernel(20, 5, 5)], [MM_OP]), file([kernel(20, 5, 5)], [])
    assert charged(first, second) == [("aten::mm", 2000), (None, None)]


# --------------------------------------------------------------------------------------------- charging


def nest(*names: str, launcher: int, **more: Any) -> list[tuple[str | None, int | None]]:
    """What a kernel is charged to that the operator number `launcher` of nested ones launches."""
    shapes: dict[str, Any] = {
        "aten::linear": (bf(10, 10), bf(10, 10)),
        "aten::mm": MM,
        "aten::add": ADD,
        "aten::to": (bf(10, 10),),
        "aten::_to_copy": (bf(10, 10),),
        "aten::copy_": (bf(10, 10), bf(10, 10)),
    }
    events = [
        operator(i, 40 - 2 * i, name, *shapes.get(name, ()), external_id=i + 1)
        for i, name in enumerate(names)
    ]
    return charged(file([kernel(50, 8, launcher), *more.pop("ops", ())], events), **more)


@pytest.mark.parametrize(
    ("names", "launcher", "operator", "flops"),
    [
        pytest.param(["aten::linear", "aten::mm"], 2, "aten::mm", 2000, id="the innermost"),
        pytest.param(
            ["aten::linear", "aten::t", "acme::x"], 3, "aten::linear", 2000, id="the innermost model"
        ),
        pytest.param(["acme::x", "acme::y"], 2, None, None, id="none"),
        pytest.param(["aten::linear", "aten::add"], 2, "aten::add", 0, id="one without FLOPs"),
    ],
)
def test_the_innermost_operator_with_a_model_pays(
    names: list[str], launcher: int, operator: str | None, flops: int | None
) -> None:
    assert nest(*names, launcher=launcher) == [(operator, flops)]


def test_no_flops_are_charged_twice() -> None:
    """The kernel that aten::linear launches itself, beside the product inside it, stays without a model."""
    found = nest("aten::linear", "aten::mm", launcher=2, ops=[kernel(60, 2, 1)])
    assert found == [("aten::mm", 2000), (None, None)]


def test_a_product_inside_that_launched_nothing_does_not_hide_the_one_around_it() -> None:
    assert nest("aten::linear", "aten::mm", launcher=1) == [("aten::linear", 2000)]


def test_element_wise_work_inside_does_not_hide_the_product_around_it() -> None:
    found = nest("aten::linear", "aten::add", launcher=2, ops=[kernel(60, 2, 1)])
    assert found == [("aten::add", 0), ("aten::linear", 2000)]


def test_the_bytes_of_a_wrapper_are_not_charged_beside_those_inside_it() -> None:
    found = nest("aten::_to_copy", "aten::copy_", launcher=2, ops=[kernel(60, 2, 1)])
    assert found == [("aten::copy_", 0), (None, None)]


DECLARED = {"op": "acme::block", "flops": "7000", "dtype": "c10::BFloat16"}


def test_a_declared_operator_pays_for_all_inside() -> None:
    more = [kernel(60, 2, 1), kernel(70, 6, 3)]
    found = nest("acme::block", "aten::linear", "aten::mm", launcher=3, ops=more, models=[DECLARED])
    assert [op for op, _ in found] == ["acme::block"] * 3
    assert [flops for _, flops in found] == [3500, 875, 2625]  # 8, 2 and 6 of 16 ns


def test_a_declaration_of_constants_needs_no_shapes() -> None:
    places = DECLARED | {"flops": "n * 2", "dims": {"n": "0.0"}}
    assert nest("acme::block", launcher=1, models=[DECLARED]) == [("acme::block", 7000)]
    assert nest("acme::block", launcher=1, models=[places]) == [(None, None)]


def test_of_two_declared_the_inner_one_pays() -> None:
    inner = DECLARED | {"op": "acme::inner", "flops": "100"}
    found = nest("acme::block", "acme::inner", "aten::mm", launcher=3, models=[DECLARED, inner])
    assert found == [("acme::inner", 100)]


# ----------------------------------------------------------------------------------------------- shares


@pytest.mark.parametrize(
    ("durations", "shares"),
    [([10], [2000]), ([10, 30], [500, 1500]), ([5, 0], [2000, 0]), ([0, 0], [1000, 1000]), ([0], [2000])],
)
def test_kernels_share_by_duration(durations: list[int], shares: list[int]) -> None:
    ops = [kernel(20 + 50 * i, dur, 5) for i, dur in enumerate(durations)]
    assert [flops for _, flops in charged(file(ops, [MM_OP]))] == shares
    moved = [round(size) for size in price(file(ops, [MM_OP]))["bytes"]]
    assert moved == [share * 600 // 2000 for share in shares]


def test_two_calls_are_two_operators() -> None:
    events, ops = zip(product(0, 10, 1), product(50, 30, 2), strict=True)
    assert [flops for _, flops in charged(file(ops, events))] == [2000, 2000]


def test_kernels_of_one_operator_on_two_devices_share_it() -> None:
    ops = [kernel(20, 10, 5), kernel(20, 30, 5, device=1)]
    assert sorted(flops or 0 for _, flops in charged(file(ops, [MM_OP]))) == [500, 1500]


def test_communication_and_copies_are_not_priced() -> None:
    ops = [kernel(20, 5, 5, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), kernel(30, 5, 5, kind="memcpy")]
    assert charged(file([*ops, kernel(40, 5, 5)], [MM_OP])) == [("aten::mm", 2000)]


def test_recomputation_is_that_of_the_launching_operator() -> None:
    node = operator(0, 40, "autograd::engine::evaluate_function: CheckpointBackward", external_id=1)
    again = operator(2, 20, "aten::linear", bf(10, 10), bf(10, 10), external_id=2, sequence=3)
    inner = operator(3, 10, "aten::mm", *MM, external_id=3)
    plain = operator(30, 5, "aten::mm", *MM, external_id=4, sequence=4, forward_thread=1)
    ops = [kernel(50, 5, 3), kernel(60, 5, 4)]
    found = price(file(ops, [node, again, inner, plain, launch(39, 99)]))
    assert found["recompute"].to_list() == [True, False]


# ------------------------------------------------------------------------------------------------ times


def times(found: Any) -> tuple[float | None, ...]:
    """(ideal, roofline) in nanoseconds."""
    row = found.select("ideal_ps", "roofline_ps").row(0)
    return tuple(None if ps is None else ps / 1000 for ps in row)


FLOAT = (t(10, 10), t(10, 10))  # 2000 FLOP, 1200 bytes
INT8 = (t(10, 10, dtype="signed char"), t(10, 10, dtype="signed char"))
DOUBLE = (t(10, 10, dtype="double"), t(10, 10, dtype="double"))
GATHER = (t(4, 4), [t(4, dtype="long int")])


@pytest.mark.parametrize(
    ("chip", "op", "arguments", "name", "basis", "expected"),
    [
        pytest.param("Tiny", "aten::mm", MM, "gemm", "peak", (2, 6), id="peak"),
        pytest.param("Tiny", "aten::mm", MM, "gemm", "roofline", (6, 6), id="roofline is the longer of the two"),
        pytest.param("Tiny", "aten::mm", MM, "gemm", "achievable", (4, 6), id="achievable"),
        pytest.param("Tiny", "aten::add", ADD, "add", "peak", (0, 6), id="element-wise at peak"),
        pytest.param("Tiny", "aten::add", ADD, "add", "roofline", (6, 6), id="element-wise at the roofline"),
        pytest.param("Tiny", "aten::add", ADD, "add", "achievable", (0, 6), id="element-wise, achievable"),
        pytest.param("Tiny", "aten::mm", FLOAT, "gemm", "peak", (None, None), id="a type without a peak"),
        pytest.param("Tensor", "aten::mm", FLOAT, "sgemm", "peak", (20, 20), id="fp32 on the vector unit"),
        pytest.param("Tensor", "aten::mm", FLOAT, "cutlass_tensorop_s1688gemm_tf32", "peak", (4, 12), id="TF32"),
        pytest.param("Tensor", "aten::mm", FLOAT, "ampere_s1688cudnn_128", "peak", (4, 12), id="TF32 by its tile"),
        pytest.param("Blind", "aten::mm", FLOAT, "gemm_tf32", "peak", (None, None), id="TF32 where there is none"),
        pytest.param("Tensor", "aten::mm", MM, "bf16_s1688gemm", "peak", (2, 6), id="other types have no TF32"),
        pytest.param("Tensor", "aten::_int_mm", INT8, "i8gemm", "peak", (1, 6), id="int8"),
        pytest.param("Tensor", "aten::mm", DOUBLE, "dgemm", "peak", (None, None), id="no fp64 known"),
        pytest.param("Tensor", "aten::add", (*DOUBLE, "1"), "add", "peak", (0, 24), id="no FLOPs need no peak"),
        pytest.param("Blind", "aten::mm", MM, "gemm", "peak", (1, 1), id="no bandwidth: the FLOPs are the roofline"),
        pytest.param("Blind", "aten::add", ADD, "add", "peak", (0, 0), id="no bandwidth: nothing is known"),
        pytest.param("Tiny", "aten::index", GATHER, "gather", "peak", (0, 0), id="bytes unknown"),
        pytest.param("Tiny", "aten::index", GATHER, "gather", "roofline", (None, None), id="no bytes, no roofline"),
    ],
)  # fmt: skip
def test_times(
    chip: str, op: str, arguments: Any, name: str, basis: str, expected: tuple[float | None, ...]
) -> None:
    made = file([kernel(20, 100, 5, name)], [operator(0, 9, op, *arguments, external_id=5)], chip)
    assert times(price(made, basis=basis)) == expected


def test_one_kernel_that_says_tf32_speaks_for_its_operator() -> None:
    """So do the others of the same product, such as the sum of its parts."""
    ops = [
        kernel(20, 10, 5, "gemm_tf32"),
        kernel(40, 30, 5, "splitKreduce"),
        kernel(80, 10, 6, "splitKreduce"),
    ]
    events = [operator(9 * i, 1, "aten::mm", *FLOAT, external_id=i) for i in (5, 6)]
    found = price(file(ops, events, "Tensor"))
    assert found["tf32"].to_list() == [True, True, False]
    assert found["ideal_ps"].to_list() == [1000, 3000, 20_000]


def test_an_unknown_type_has_no_ideal() -> None:
    shapes = {"input_dims": "[[10,10],[10,10]]", "input_types": '["acme::Half","acme::Half"]'}
    made = file([kernel(20, 5, 5)], [operator(0, 9, "aten::mm", external_id=5) | shapes])
    assert times(price(made)) == (None, None)


def test_every_device_has_its_own_chip() -> None:
    files = [file([product(0, 10)[1]], [product(0, 10)[0]], chip) for chip in ("Tiny", "Blind")]
    assert price(*files)["ideal_ps"].to_list() == [2000, 1000]


def test_the_peak_is_the_same_under_every_basis() -> None:
    made = file([kernel(20, 10, 5)], [MM_OP])
    assert [price(made, basis=b)["peak_ps"].to_list() for b in ("peak", "roofline", "achievable")] == [
        [2000]
    ] * 3


# ------------------------------------------------------------------------------------ kernels without launch


def carried(*ops: Row, events: list[Row], **more: Any) -> list[tuple[str | None, int | None, bool]]:
    found = price(file([*ops], events, **more)).select("operator", "flops", "inferred")
    return [(op, None if f is None else round(f), inferred) for op, f, inferred in found.iter_rows()]


def test_a_kernel_without_a_launch_takes_the_model_of_its_name() -> None:
    events = [MM_OP, launch(4, 9)]
    found = carried(kernel(0, 7, name="gemm"), kernel(20, 5, name="gemm", correlation=9), events=events)
    assert found == [("aten::mm", 2000, True), ("aten::mm", 2000, False)]


def test_the_mean_of_equal_operators_is_taken() -> None:
    """Two kernels of an operator share it 1 : 3 once and 2 : 2 once; 1.5 : 2.5 of it is what is taken."""
    events = [operator(i, 1, "aten::mm", *MM, external_id=i) for i in (1, 2)]
    linked = [kernel(start, dur, id_, name) for start, dur, id_, name in (
        (20, 10, 1, "split"), (40, 30, 1, "add"), (80, 20, 2, "split"), (110, 20, 2, "add"),
    )]  # fmt: skip
    found = carried(kernel(0, 5, name="split"), kernel(10, 5, name="add"), *linked, events=events)
    assert found[:2] == [("aten::mm", 750, True), ("aten::mm", 1250, True)]


def test_kernels_of_a_replayed_graph_are_not_guessed() -> None:
    """Their launch is in the file: it says that no operator launched them one by one."""
    events = [MM_OP, launch(4, 9), launch(14, 10, "cudaGraphLaunch")]
    linked = kernel(20, 5, name="gemm", correlation=9)
    replayed = kernel(40, 5, name="gemm", correlation=10)
    before = kernel(0, 5, name="gemm", correlation=2, graph_node=3)
    found = carried(before, linked, replayed, events=events)
    assert found == [(None, None, False), ("aten::mm", 2000, False), (None, None, False)]


def test_kernels_of_a_graph_teach_that_there_is_no_operator() -> None:
    events = [MM_OP, launch(4, 9), launch(14, 10, "cudaGraphLaunch")]
    names = [kernel(20, 5, name="gemm", correlation=9), kernel(40, 5, name="gemm", correlation=10)]
    assert carried(kernel(0, 5, name="gemm"), *names, events=events)[0] == (None, None, True)


def test_an_operator_without_a_model_teaches_that_there_is_none() -> None:
    events = [operator(20, 9, "acme::x", external_id=1), MM_OP]
    names = [kernel(20, 5, 1, "gemm"), kernel(40, 5, 5, "gemm")]
    assert carried(kernel(0, 5, name="gemm"), *names, events=events)[0] == (None, None, True)


def test_recomputation_is_taken_over_and_no_where_it_is_not_clear() -> None:
    node = operator(0, 40, "autograd::engine::evaluate_function: CheckpointBackward", external_id=1)
    again = operator(2, 20, "aten::mm", *MM, external_id=2, sequence=3)
    plain = operator(50, 5, "aten::mm", *MM, external_id=4)
    linked = [kernel(60, 5, 2, "again"), kernel(70, 5, 2, "both"), kernel(80, 5, 4, "both")]
    ops = [kernel(0, 5, name="again"), kernel(10, 5, name="both", stream=8), *linked]
    found = price(file(ops, [node, again, plain, launch(39, 99)]))
    assert found["recompute"].to_list() == [True, False, True, True, False]
    assert found["operator"].to_list() == ["aten::mm"] * 5


# ------------------------------------------------------------------------------------------- the window's edge


def test_a_kernel_that_the_window_cuts_counts_pro_rata() -> None:
    steps = [{"step": 1, "name": "ProfilerStep#1", "start_ns": 45, "end_ns": 100}]
    event, ran = product(40, 20)  # 15 of 20 ns are inside: 1.5 of 2 ns ideal
    made = file([ran, product(60, 6, 2)[1]], [event, product(60, 6, 2)[0]], steps=steps)
    found = judge(made)
    assert isinstance(found, judging.Judged)
    assert found.rows is not None
    assert found.ideal_ns == 4  # 3.5, of which ledger rows are whole
    assert found.ops.select("time_ns", "flops", "bytes").row(0) == (21, 3500, 1050)
