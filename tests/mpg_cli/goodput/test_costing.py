"""The cost of operators: by the call alone, else by what is known around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from mpg_cli.goodput import costing, operators
from mpg_cli.goodput.models import Models
from tests.mpg_cli.datasets import dataset, host, source
from tests.mpg_cli.goodput.judged import ADD, MM, operator
from tests.mpg_cli.goodput.models.calls import bf, t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.mpg_cli.datasets import Row

KERNELS = {"row": pl.UInt32, "name": pl.String}


def costs(
    events: Sequence[Row], names: Mapping[int, str] | None = None, models: Sequence[Mapping[str, object]] = ()
) -> dict[int, tuple[int, int | None] | None]:
    """(FLOPs, bytes) by external id; names: the kernel that an operator (by id) launched."""
    made = dataset(source(events=events))
    nested = operators.load(made)
    ids = dict(nested.ops.select("row", "external_id").iter_rows())
    rows = {id_: row for row, id_ in ids.items()}
    kernels = pl.DataFrame([(rows[i], name) for i, name in (names or {}).items()], KERNELS, orient="row")
    annotations = costing.batch_annotations(made.scan("host_events"))
    found = costing.find_costs(nested, Models.load(models), annotations, kernels)
    table = {row["cost"]: (row["flops"], row["bytes"]) for row in found.table().iter_rows(named=True)}
    numbers = ((id_, found.of(row)) for row, id_ in ids.items())
    return {id_: None if number is None else table[number] for id_, number in numbers}


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("aten::mm", MM, (2000, 600)),
        ("aten::add", ADD, (0, 600)),
        ("acme::x", MM, None),
        ("aten::mm", (), None),
        ("aten::mm", (bf(10, 10), bf(9, 10)), None),
    ],
)
def test_by_the_call_alone(name: str, arguments: Any, expected: Any) -> None:
    assert costs([operator(0, 1, name, *arguments, external_id=1)]) == {1: expected}


def test_equal_calls_have_one_cost() -> None:
    made = dataset(source(events=[operator(i, 1, "aten::mm", *MM, external_id=i) for i in (1, 2)]))
    nested = operators.load(made)
    found = costing.find_costs(nested, Models.load(), pl.DataFrame(), pl.DataFrame())
    assert found.table().select("cost", "call", "flops", "dtype", "unit", "model", "exact").rows() == [
        (0, 0, 2000, "c10::BFloat16", "matrix", "gemm", True)
    ]
    assert [(found.of(row), found.flops(row), found.name(row)) for row in (0, 1)] == [
        (0, 2000, "aten::mm")
    ] * 2
    assert not found.any_declared


X, WEIGHT, GRADIENT = t(1, 3, 8, 8), t(4, 3, 3, 3), t(1, 4, 4, 4)
ONE_WAY = 2 * 4 * 4 * 4 * 27


def old(start: int, id_: int, name: str, *arguments: Any, dur: int = 1) -> Row:
    """An operator of a trace from before 2023: no scalars are recorded."""
    return operator(start, dur, name, *arguments, external_id=id_) | {"concrete_inputs": None}


def test_a_convolution_without_strides_takes_its_output_from_the_gradient() -> None:
    forward = old(0, 1, "aten::cudnn_convolution", X, WEIGHT)
    assert costs([forward]) == {1: None}
    backward = old(5, 2, "aten::cudnn_convolution_backward", X, GRADIENT, WEIGHT)
    assert costs([forward, backward])[1] == (ONE_WAY, 4 * (3 * 64 + 4 * 27 + 4 * 16))


def test_a_gradient_takes_the_size_of_the_weight_from_the_call_around_it() -> None:
    around = old(0, 1, "aten::cudnn_convolution_backward", X, GRADIENT, WEIGHT, dur=10)
    inner = old(2, 2, "aten::cudnn_convolution_backward_weight", "", GRADIENT, X)
    assert costs([inner]) == {2: None}
    assert costs([around, inner])[2] == (ONE_WAY, 4 * (3 * 64 + 4 * 27 + 4 * 16))


HEADS = (bf(5, 2, 8),) * 3
STEP = "execute_context_1(5)_generation_0(0)"
CAUSAL, SLIDING = "fmhaPagedKvCausalVarSeq", "fmhaPagedKvSlidingOrChunkedCausal"
PAIRS = 4 * 15 * 2 * 8  # two products, 5 · 6 / 2 pairs, two heads of 8


@pytest.mark.parametrize(
    ("range_", "kernel", "expected"),
    [
        (host(0, 20, STEP), CAUSAL, PAIRS),
        (host(0, 20, STEP), SLIDING, None),
        (host(0, 20, STEP), None, None),
        (host(0, 4, STEP), CAUSAL, None),
        (host(6, 20, STEP), CAUSAL, None),
        (host(0, 20, "execute_model"), CAUSAL, None),
        (host(0, 20, STEP, "python"), CAUSAL, None),
    ],
)
def test_attention_over_a_paged_cache_needs_the_range_around_it_and_the_kernel(
    range_: Row, kernel: str | None, expected: int | None
) -> None:
    event = operator(5, 10, "vllm::unified_attention", *HEADS, external_id=1)
    found = costs([event, range_], {1: kernel} if kernel else {})[1]
    assert (found and found[0]) == expected


def test_a_range_of_another_file_tells_nothing() -> None:
    event = operator(5, 10, "vllm::unified_attention", *HEADS, external_id=1)
    made = dataset(source(events=[event]), source(events=[host(0, 20, STEP)]))
    kernels = pl.DataFrame([(0, CAUSAL)], KERNELS, orient="row")
    annotations = costing.batch_annotations(made.scan("host_events"))
    found = costing.find_costs(operators.load(made), Models.load(), annotations, kernels)
    assert found.of(0) is None


def test_what_the_user_declares_goes_first() -> None:
    model = {"op": "aten::mm", "flops": "m * 3", "dims": {"m": "0.0"}}
    assert costs([operator(0, 1, "aten::mm", *MM, external_id=1)], models=[model]) == {1: (30, None)}
