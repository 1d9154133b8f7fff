"""Profiled kernels joined to those of a trace: names in two spellings, launch shapes, agreement of launches."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput import counters
from mpg_cli.goodput.counters import attach, load, measured, signature
from mpg_cli.ingest import IngestOptions, ingest
from mpg_parsers.tables import KERNEL_COUNTERS
from tests.mpg_cli.running import ROOT

# the same kernel, as NVIDIA's demangler and the C++ library's write it
FILL = "at::native::FillFunctor<float>"
UNNAMED = "at::native::(anonymous namespace)::"
SPELLINGS = [
    ("warmingUp(float *)", "warmingUp(float*)"),
    ("void sgemm<(int)4>(const float *, float *)", "void sgemm<4>(float const*, float*)"),
    (
        "void at::native::<unnamed>::cat<at::native::<unnamed>::A<(unsigned int)16>, (bool)1, (int)-1>(T1 *, int)",
        f"void {UNNAMED}cat<{UNNAMED}A<16u>, true, -1>(float*, int)",
    ),
    (
        f"void at::native::vec<(int)4, {FILL}, std::array<char *, (unsigned long)1>>(int, T2, T3)",
        f"void at::native::vec<4, {FILL}, std::array<char*, 1ul> >(int, {FILL}, std::array<char*, 1ul>)",
    ),
    (
        "void k<unsigned long, (ns::Kind)2>(unsigned long)",
        "void k<unsigned long, (ns::Kind)2>(unsigned long)",
    ),
    ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ("k(int) [clone .kd]", "k(int)"),
]
OTHERS = [
    ("k(float *)", "k(double*)"),
    ("k<(int)4>(float *)", "k<8>(float*)"),
    ("a::k(int)", "b::k(int)"),
    ("k(unsigned int)", "k(unsignedint)"),
    ("sgemm", "sgemm(float*)"),
    ("k<int>(T1)", "k<float>(float)"),
    ("k<(bool)1>()", "k<false>()"),
]


def launch(name: str, flops: float | None = 100.0, **more: Any) -> dict[str, Any]:
    work = {"flops": flops, "fp32_flops": flops, "fp64_flops": 0.0, "fp16_flops": 0.0, "tensor_ops": 0.0}
    shape = {"grid": "[4, 2, 1]", "block": "[64, 1, 1]"}
    return {"source": 0, "launch": 0, "name": name, "flops_error": 0.0, **shape, **work, **more}


def table(*launches: dict[str, Any]) -> pl.DataFrame:
    return KERNEL_COUNTERS.conform(pl.DataFrame(list(launches), infer_schema_length=None))


def kernels(*names: str, grid: str | None = "[4,2,1]", block: str | None = "[64,1,1]") -> pl.DataFrame:
    rows = {"name": list(names), "grid": [grid] * len(names), "block": [block] * len(names)}
    return pl.DataFrame(rows, schema={"name": pl.String, "grid": pl.String, "block": pl.String})


def joined(profiled: str, traced: str) -> dict[str, Any]:
    return attach(kernels(traced), measured(table(launch(profiled)))).row(0, named=True)


@pytest.mark.parametrize(("profiled", "traced"), SPELLINGS)
def test_one_kernel_in_two_spellings(profiled: str, traced: str) -> None:
    for one, other in ((profiled, traced), (traced, profiled)):
        found = joined(one, other)
        assert (found["flops"], found["launches"], found["reason"]) == (100, 1, None)
        assert (found["name"], found["profiled_name"]) == (other, one)


@pytest.mark.parametrize(("profiled", "traced"), OTHERS)
def test_two_kernels(profiled: str, traced: str) -> None:
    found = joined(profiled, traced)
    assert (found["flops"], found["launches"], found["reason"]) == (None, None, counters.NOT_PROFILED)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("f", ("f", "")),
        ("f()", ("f", "()")),
        ("ns::(anonymous namespace)::f(int (*)(float), int)", ("ns::(anonymous)::f", "(int(*)(float),int)")),
        ("void ns::F::operator()<(int)2>(int) const", ("ns::F::operator()<2>(int)", "")),
        ("", ("", "")),
        ("(a)", ("(a)", "")),
        (")", (")", "")),
        ("f)(", ("f)(", "")),
    ],
)
def test_signature(name: str, want: tuple[str, str]) -> None:
    assert signature(name) == want


@pytest.mark.parametrize(
    ("grid", "block", "reason"),
    [
        ("[4, 2, 1]", "[64, 1, 1]", None),
        ("[4,2,2]", "[64,1,1]", counters.NOT_PROFILED),
        ("[4,2,1]", "[32,1,1]", counters.NOT_PROFILED),
        (None, "[64,1,1]", counters.NO_SHAPE),
        ("[4,2,1]", None, counters.NO_SHAPE),
    ],
)
def test_launch_shape(grid: str | None, block: str | None, reason: str | None) -> None:
    found = attach(kernels("k", grid=grid, block=block), measured(table(launch("k")))).row(0, named=True)
    assert (found["reason"], found["flops"]) == (reason, None if reason else 100)


def test_a_profile_without_shapes_fits_nothing() -> None:
    found = attach(kernels("k"), measured(table(launch("k", grid=None, block=None))))
    assert found["reason"].to_list() == [counters.NOT_PROFILED]


def test_overloads() -> None:
    profile = measured(table(launch("k(float *)", 1), launch("k(double *)", 2)))
    assert attach(kernels("k(double*)", "k(float*)"), profile)["flops"].to_list() == [2, 1]
    found = attach(kernels("k(T1*)"), profile).row(0, named=True)
    assert (found["flops"], found["reason"]) == (None, counters.AMBIGUOUS)


@pytest.mark.parametrize(
    ("flops", "want", "spread", "reason"),
    [
        ([100.0], 100, 0, None),
        ([100.0, 100.9], 100.45, 0.009, None),
        ([100.0, 101.1], None, 0.011, counters.DIFFER),
        ([0.0, 0.0], 0, 0, None),
        ([0.0, 1.0], None, None, counters.DIFFER),
        ([100.0, None], None, 0, counters.NOT_COUNTED),
        ([None], None, None, counters.NOT_COUNTED),
    ],
)
def test_launches_of_one_shape(
    flops: list[float | None], want: float | None, spread: float | None, reason: str | None
) -> None:
    found = measured(table(*(launch("k", value) for value in flops))).row(0, named=True)
    assert (found["launches"], found["reason"]) == (len(flops), reason)
    assert found["flops"] == (None if want is None else pytest.approx(want))
    assert found["fp32_flops"] == found["flops"]
    assert found["spread"] == (None if spread is None else pytest.approx(spread))


@pytest.mark.parametrize("error", [0.02, None])
def test_too_few_digits(error: float | None) -> None:
    found = measured(table(launch("k"), launch("k", flops_error=error))).row(0, named=True)
    assert (found["flops"], found["reason"]) == (None, counters.FEW_DIGITS)


def test_types_and_fractions() -> None:
    profile = measured(
        table(
            launch("k", tensor_type="bf16", dram_fraction=0.2, dram_bytes=10.0),
            launch("k", tensor_type="bf16", dram_fraction=0.4, dram_bytes=20.0),
            launch("l", tensor_type="bf16"),
            launch("l", tensor_type="fp16"),
        )
    ).sort("name")
    assert profile["tensor_type"].to_list() == ["bf16", None]
    assert profile["dram_fraction"].to_list() == [pytest.approx(0.3), None]
    assert profile["dram_bytes"].to_list() == [15, None]


def test_rows_of_the_trace_stay_as_they_are() -> None:
    trace = kernels("k", "x", "k").with_columns(
        pl.col("name").cast(pl.Categorical), dur_ns=pl.Series([1, 2, 3])
    )
    found = attach(trace, measured(table(launch("k"))))
    assert found.select("name", "dur_ns", "flops").rows() == [("k", 1, 100), ("x", 2, None), ("k", 3, 100)]
    assert attach(trace.clear(), measured(table(launch("k")))).is_empty()
    assert (
        attach(trace, measured(table(launch("k")).clear()))["reason"].to_list() == [counters.NOT_PROFILED] * 3
    )


LAUNCHES = st.lists(
    st.tuples(
        st.sampled_from(["k(int)", "k(T1)", "l"]),
        st.sampled_from(["[1,1,1]", "[2,1,1]"]),
        st.sampled_from([0.0, 100.0, 100.5, 200.0, None]),
        st.sampled_from([0.0, 0.005, 0.02, None]),
    ),
    max_size=8,
)


@given(LAUNCHES)
def test_against_plain_python(drawn: list[tuple[str, str, float | None, float | None]]) -> None:
    groups: dict[tuple[str, str], list[tuple[float | None, float | None]]] = defaultdict(list)
    for name, grid, flops, error in drawn:
        groups[name, grid].append((flops, error))
    want = {}
    for key, launches in groups.items():
        known = [
            flops for flops, error in launches if flops is not None and error is not None and error <= 0.01
        ]
        usable = len(known) == len(launches) and max(known) <= 1.01 * min(known)
        want[key] = (len(launches), pytest.approx(sum(known) / len(known)) if usable else None)
    profile = measured(table(*(launch(n, f, grid=g, flops_error=e) for n, g, f, e in drawn)))
    found = {
        (n, "[" + g.replace(" ", ",") + "]"): (c, f)
        for n, g, c, f in profile.select("name", "grid", "launches", "flops").rows()
    }
    assert found == want
    assert (profile["flops"].is_null() == profile["reason"].is_not_null()).all()


def test_from_files() -> None:
    """The fixture, joined to names as PyTorch writes them."""
    with ingest([str(ROOT / "fixtures/ncu/two_kernels.raw.csv")], IngestOptions()) as dataset:
        profile = load(dataset)
    trace = pl.concat(
        [
            kernels("void sgemm<4>(float const*, float*)", grid="[64, 1, 1]", block="[256, 1, 1]"),
            kernels("gemm_bf16", grid="[8, 16, 1]", block="[384, 1, 1]"),
        ]
    )
    found = attach(trace, profile)
    assert found.select("flops", "tensor_type", "launches", "reason").rows() == [
        (21_500_000, None, 1, None),
        (4_294_967_296, "bf16", 1, None),
    ]
