"""Sizes and bandwidths by hand, as nccl-tests define them."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

from mpg_cli.goodput.collectives.kinds import bus_factor, described, message_bytes


@pytest.mark.parametrize(
    ("name", "ranks", "factor"),
    [
        ("allreduce", 8, Fraction(7, 4)),
        ("all_reduce", 2, Fraction(1)),
        ("allreduce_coalesced", 4, Fraction(3, 2)),
        ("_reduce_scatter_base", 8, Fraction(7, 8)),
        ("reduce_scatter_tensor_coalesced", 2, Fraction(1, 2)),
        ("_allgather_base", 8, Fraction(7, 8)),
        ("all_gather", 4, Fraction(3, 4)),
        ("all_to_all", 8, Fraction(7, 8)),
        ("alltoall_base", 8, Fraction(7, 8)),
        ("broadcast", 8, Fraction(1)),
        ("_broadcast_oop", 8, Fraction(1)),
        ("reduce", 8, Fraction(1)),
        ("_reduce_oop", 8, Fraction(1)),
        ("send", 2, Fraction(1)),
        ("recv", 2, Fraction(1)),
        ("gather", 8, None),
        ("scatter", 8, None),
        ("barrier", 8, None),
        ("allreduce", None, None),
        ("allreduce", 1, Fraction(0)),
        ("allreduce", 0, None),
    ],
)
def test_bus_factor(name: str, ranks: int | None, factor: Fraction | None) -> None:
    frame = pl.DataFrame({"n": [ranks], "name": [name]}, schema={"n": pl.Int64, "name": pl.String})
    found = frame.select(bus_factor(pl.col("n"), pl.col("name"))).item()
    assert found == (None if factor is None else pytest.approx(float(factor)))


@pytest.mark.parametrize(
    ("short", "elements", "kind", "ranks", "expected"),
    [
        ("allreduce", 1000, "BFloat16", 8, 2000),
        ("allreduce", 1000, "c10::BFloat16", None, 2000),
        ("_allgather_base", 25136, "BFloat16", 8, 402176),
        ("_allgather_base", 25136, "BFloat16", None, None),
        ("_reduce_scatter_base", 800, "Float", 8, 3200),
        ("all_to_all", 6144, "float", 8, 24576),
        ("all_to_allv", 6144, "Float", 8, None),
        ("broadcast", 53, "Long", 2, 424),
        ("allreduce", None, "Float", 8, None),
        ("allreduce", 7, "unheard-of", 8, None),
        ("allreduce", 7, None, 8, None),
        ("allreduce", -7, "Float", 8, None),
        ("allreduce", 2**62, "Float", 8, None),
        ("allreduce", 2**38, "Float", 8, 2**40),
        ("allreduce", 2**38 + 1, "Float", 8, None),
        ("_allgather_base", 2**40, "Double", 2**62, None),
        ("_allgather_base", 1, "Double", 0, None),
    ],
)
def test_message_bytes(
    short: str, elements: int | None, kind: str | None, ranks: int | None, expected: int | None
) -> None:
    schema = {"short": pl.String, "in_elements": pl.Int64, "element_type": pl.Categorical, "n": pl.Int64}
    frame = pl.DataFrame([(short, elements, kind, ranks)], schema, orient="row")
    assert frame.select(message_bytes(pl.col("n"))).item() == expected


@pytest.mark.parametrize(
    ("kernel", "collective", "short", "mutual"),
    [
        ("void vllm::cross_device_reduce<float, 2>(float*)", None, "cross_device_reduce", True),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<float>()",
            None,
            "multimem_all_reduce_kernel",
            True,
        ),
        ("void <unnamed>::two_shot_all_reduce<float>()", None, "two_shot_all_reduce", True),
        ("ncclDevKernel_Generic(x)", None, "ncclDevKernel_Generic", True),
        ("ncclDevKernel_Generic(x)", "allreduce", "allreduce", True),
        ("ncclDevKernel_Generic(x)", "send", "send", False),
        ("ncclDevKernel_SendRecv(x)", None, "ncclDevKernel_SendRecv", False),
        ("ncclDevKernel_SendRecv(x)", "all_to_all", "all_to_all", True),
        ("(x)", None, "(x)", True),
    ],
)
def test_names_are_those_of_the_arguments_or_without_types(
    kernel: str, collective: str | None, short: str, *, mutual: bool
) -> None:
    schema = {"name": pl.String, "collective": pl.String, "linked_op": pl.String}
    frame = pl.DataFrame([(kernel, collective, None)], schema, orient="row")
    assert described(frame).select("short", "mutual").row(0) == (short, mutual)
