"""[[chip]] entries of the settings, and the listing."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.hardware import load
from mpg_cli.hardware.listing import hardware_text
from mpg_parsers.errors import UsageError

OURS = {
    "name": "Acme T1",
    "vendor": "Acme",
    "aliases": ["Acme Tensor One", "MTIA"],
    "compute-capability": "1.0",
    "units": 64,
    "memory-gb": 64,
    "bandwidth-gbps": 1234.5,
    "matrix": {"bfloat16": 100.25, "fp8": 200},
    "achievable": [{"dtype": "bf16", "tflops": 80}],
}


def test_a_chip_of_the_user() -> None:
    catalogue = load([OURS])
    chip = catalogue.chips[0]
    assert (chip.name, chip.memory_gb, chip.bytes_per_second) == ("Acme T1", 64, 1_234_500_000_000)
    assert [(p.dtype, p.flops_per_second, p.source) for p in chip.peaks] == [
        ("bf16", 100_250_000_000_000, "mpg.toml"),
        ("fp8", 200_000_000_000_000, "mpg.toml"),
    ]
    assert set(chip.sources.values()) == {"mpg.toml"}
    assert catalogue.find("acme tensor-one") is chip
    assert catalogue.find("", compute_capability="1.0", sm_count=64) is chip
    assert catalogue.find("NVIDIA B200") is load().find("NVIDIA B200")
    assert load().find("MTIA") is None


def test_an_entry_for_a_shipped_chip_replaces_only_what_it_states() -> None:
    catalogue = load(
        [{"name": "h100-sxm", "bandwidth_gbps": 3300, "matrix": {"bf16": 900}, "source": "measured"}]
    )
    chip = catalogue.find("NVIDIA H100 80GB HBM3")
    assert chip
    assert chip is catalogue.chips[0]
    assert len(catalogue.chips) == len(load().chips)
    assert (chip.bandwidth_gbps, chip.memory_gb) == (3300, 80)
    assert {p.dtype: p.tflops for p in chip.peaks if p.unit == "matrix"} == {
        "tf32": Decimal("494.7"),
        "bf16": 900,
        "fp16": Decimal("989.4"),
        "fp8": Decimal("1978.9"),
        "int8": Decimal("1978.9"),
    }
    sources = chip.sources
    assert {figure for figure, source in sources.items() if source == "measured"} == {
        "bandwidth_gbps",
        "matrix.bf16",
    }
    assert "ml-engineering" in sources["memory_gb"]
    assert "ml-engineering" in sources["achievable.bf16"]


def test_a_shared_name_stays_shared() -> None:
    catalogue = load([{"name": "MI250X GCD", "bandwidth-gbps": 1500}])
    found = catalogue.lookup("AMD Instinct MI250X / MI250", compute_capability="9.0", sm_count=104)
    assert found.chip
    assert found.chip.name == "MI210 / MI250 GCD"


@pytest.mark.parametrize("name", ["NVIDIA B200", "AMD Radeon Graphics", "AMD Instinct MI250X / MI250"])
def test_a_name_that_the_user_claims_is_the_users(name: str) -> None:
    found = load([{"name": "Ours", "aliases": [name]}]).lookup(name)
    assert found.chip
    assert (found.chip.name, found.by) == ("Ours", "name")


def test_what_toml_gives_is_taken() -> None:
    text = '[[chip]]\nname = "X"\nmemory-gb = 16\nmatrix = { bf16 = 0.1, int8 = 3 }'
    chip = load(tomllib.loads(text)["chip"]).chips[0]
    assert [p.flops_per_second for p in chip.peaks] == [100_000_000_000, 3_000_000_000_000]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "[[chip]] 1: a chip needs a name"),
        ({"name": 7}, "[[chip]] 1: name: expected a text, got 7"),
        (
            {"name": "X", "bandwith_gbps": 1},
            "'X': unknown key 'bandwith_gbps'; did you mean 'bandwidth_gbps'?",
        ),
        (
            {"name": "X", "memory_gb": 0},
            "'X': memory_gb: expected a number from 0.001 to 1000000 with at most 9 decimals, got 0",
        ),
        ({"name": "X", "memory_gb": True}, "memory_gb: expected a number"),
        ({"name": "X", "memory_gb": "80"}, "memory_gb: expected a number"),
        ({"name": "X", "memory_gb": float("nan")}, "memory_gb: expected a number"),
        ({"name": "X", "memory_gb": float("inf")}, "memory_gb: expected a number"),
        ({"name": "X", "memory_gb": 1e300}, "memory_gb: expected a number"),
        ({"name": "X", "bandwidth_gbps": 1 / 3}, "with at most 9 decimals"),
        ({"name": "X", "units": 0}, "units: expected a whole number above zero"),
        ({"name": "X", "units": 1.5}, "units: expected a whole number"),
        ({"name": "X", "compute_capability": 9.0}, "compute_capability: expected a text, got 9.0"),
        ({"name": "X", "compute_capability": "sm_90"}, "expected e.g. \"9.0\", got 'sm_90'"),
        ({"name": "X", "aliases": "Y"}, "aliases: expected a list of names, got 'Y'"),
        ({"name": "X", "aliases": [" "]}, "aliases: expected a list of names"),
        ({"name": "X", "matrix": 989}, "matrix: expected a table, got 989"),
        ({"name": "X", "matrix": {"bf61": 1}}, "matrix: unknown operand type 'bf61'; did you mean 'bf16'?"),
        ({"name": "X", "matrix": {"bf16": -1}}, "matrix: bf16: expected a number from 0.001"),
        ({"name": "X", "matrix": {"bf16": 1, "bfloat16": 2}}, "matrix: bf16 is given twice"),
        ({"name": "X", "achievable": {"bf16": 1}}, "achievable: expected a list of tables"),
        ({"name": "X", "achievable": [{"tflops": 1}]}, "achievable: unknown operand type None"),
        ({"name": "X", "achievable": [{"dtype": "bf16"}]}, "tflops: expected a number from 0.001"),
        ({"name": "X", "sources": "me"}, "sources: expected a table"),
        ({"name": "H100 SXM", "aliases": 1}, "'H100 SXM': aliases: expected a list"),
        ({"name": "H100 SXM", "achievable": 1}, "'H100 SXM': expected a list of tables"),
    ],
)
def test_a_bad_entry_is_named(entry: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        load([entry])
    assert str(caught.value).startswith("[[chip]] 1")


def test_two_entries_may_not_claim_one_name() -> None:
    with pytest.raises(UsageError, match=r"\[\[chip\]\] 2: 'y' is already a name of 'X'"):
        load([{"name": "X", "aliases": ["NVIDIA Y"]}, {"name": "y"}])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["bf16", "dtype", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = [
    "memory-gb",
    "bandwidth_gbps",
    "matrix",
    "vector",
    "achievable",
    "aliases",
    "units",
    "source",
    "sources",
]


@given(st.sampled_from(["X", "H100 SXM"]), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3))
def test_any_entry_is_taken_or_refused_as_a_usage_error(name: str, fields: dict[str, object]) -> None:
    try:
        chip = load([{"name": name, **fields}]).chips[0]
    except UsageError:
        return
    assert all(peak.flops_per_second > 0 for peak in (*chip.peaks, *chip.measured))


def test_the_table_has_a_row_per_chip_and_80_columns() -> None:
    lines = hardware_text(None).splitlines()
    assert max(map(len, lines)) <= 80
    for chip in load().chips:
        assert sum(line.startswith(f"{chip.name} ") for line in lines) == 1
    row = next(line for line in lines if line.startswith("H100 SXM "))
    assert row.split() == ["H100", "SXM", "80", "3350", "494.7", "989.4", "989.4", "1978.9", "1978.9"]
    assert "V100 SXM2 16GB 16 – – – 125 – –" in {" ".join(line.split()) for line in lines}


def test_the_details_of_one_chip() -> None:
    lines = hardware_text("amd instinct mi250x").splitlines()
    assert lines[0] == "MI250X GCD (AMD)"
    assert "  device              one of the two GCDs of a package" in lines
    assert "matrix bf16, dense peak, TFLOP/s 191.5 [1]" in {" ".join(line.split()) for line in lines}
    assert "memory bandwidth, GB/s 1640 [1]" in {" ".join(line.split()) for line in lines}
    assert any(line.startswith("  [2] ROCm/legacy-rocm-build@089d751") for line in lines)


@pytest.mark.parametrize("chip", load().chips, ids=lambda chip: chip.name)
def test_details_show_every_figure_and_source(chip) -> None:
    text = hardware_text(chip.name)
    words = text.split()
    for peak in (*chip.peaks, *chip.measured):
        assert format(peak.tflops, "f") in words
        assert set(peak.source.split()) <= set(words)
    assert all(len(line) <= 80 or "://" in line or "/" in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("A100", "'A100' may mean several chips", "one of: A100 SXM 80GB, A100 PCIe 80GB, A100 40GB"),
        ("MI250X / MI250", "may mean several chips", "one of: MI250X GCD, MI210 / MI250 GCD"),
        ("H100 SMX", "no chip 'H100 SMX'; did you mean 'H100 SXM'?", "mpg hardware lists all chips"),
        ("", "no chip ''", "mpg hardware lists all chips"),
        ("zzz", "no chip 'zzz'", "mpg hardware lists all chips"),
    ],
)
def test_a_name_that_names_no_chip(name: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        hardware_text(name)
    assert message in caught.value.message
    assert caught.value.hint == hint


def test_the_users_chips_are_listed() -> None:
    catalogue = load([OURS])
    assert hardware_text(None, catalogue).splitlines()[3:5] == [
        "Acme",
        "Acme T1                        64 1234.5       –  100.25       –     200       –",
    ]
    assert "bf16, sustained, TFLOP/s" in hardware_text("acme t1", catalogue)
