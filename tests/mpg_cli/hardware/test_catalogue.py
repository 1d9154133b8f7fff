"""The shipped figures against the table they come from, and against the confusions in circulation."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from mpg_cli.hardware import DTYPES, Chip, find, load
from mpg_cli.hardware.catalogue import name_key

CHIPS = load().chips
ROOT = Path(__file__).parents[3]
CORPUS = ROOT.parent / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus beside the repository")

# entries of the table that were split or renamed
NAMES = {
    "V100 SXM2": ("V100 SXM2 16GB", "V100 SXM2 32GB"),
    "V100 PCIe": ("V100 PCIe 16GB", "V100 PCIe 32GB"),
    "GH200": ("GH200 96GB", "GH200 144GB"),
    "GB200 (per GPU)": ("GB200",),
    "GB300 (per GPU)": ("GB300",),
    "RTX PRO 6000 Blackwell": ("RTX PRO 6000 Blackwell Max-Q",),
    "MI250X (OAM, 2 GCD)": ("MI250X GCD",),
    "TPU v2 (chip)": ("TPU v2 core",),
    "TPU v3 (chip)": ("TPU v3 core",),
    "TPU7x Ironwood (chip)": ("TPU7x core",),
    "Trainium1 (chip)": ("Trainium1 core",),
    "A100 SXM": ("A100 SXM 80GB",),
    "A100 PCIe": ("A100 PCIe 80GB",),
}
NO_BANDWIDTH = {
    *("V100 SXM2 16GB", "V100 SXM2 32GB", "V100 PCIe 16GB", "V100 PCIe 32GB", "T4", "A100 40GB", "A40", "L4"),
    *("H100 NVL", "H20", "RTX A6000", "TPU v2 core", "TPU7x core", "Trainium1 core"),
}


def chip(name: str) -> Chip:
    return next(chip for chip in CHIPS if chip.name == name)


def chips_of(row: dict[str, str]) -> list[Chip]:
    name = row["name"]
    return [chip(name) for name in NAMES.get(name, (name.removesuffix(" (chip)"),))]


def rows(file: str) -> list[dict[str, str]]:
    with (CORPUS / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def rate(chip: Chip, dtype: str) -> Decimal:
    """The peak as published, for a whole package: the vector unit's where both units have the type."""
    rates = {peak.unit: peak.tflops for peak in chip.peaks if peak.dtype == dtype}
    return rates.get("vector", rates.get("matrix", Decimal(0))) * chip.devices_per_package


@needs_corpus
def test_no_figure_of_the_table_is_lost() -> None:
    table = rows("hardware_catalogue.csv")
    assert len(table) == 176
    for row in table:
        chips = chips_of(row)
        if row["peak_tflops_dense"]:
            published = Decimal(row["peak_tflops_dense"])
            assert {rate(chip, row["dtype"]) for chip in chips} == {published}, row
        for column, field in (("memory_gb", "memory_gb"), ("hbm_gbps", "bandwidth_gbps")):
            figures = [getattr(chip, field) for chip in chips]
            stated = {Decimal(figure) for figure in row[column].split("|") if figure}
            assert {f * c.devices_per_package for f, c in zip(figures, chips, strict=True) if f} == stated, (
                row
            )
        for alias in row["aliases"].split("|"):
            assert set(load().names[name_key(alias)]) & set(chips), alias


@needs_corpus
def test_no_sustained_figure_is_lost() -> None:
    for row in rows("hardware_achievable.csv"):
        for chip in chips_of(row):
            found = {(m.dtype, m.tflops) for m in chip.measured if row["source"].split("@")[0] in m.source}
            assert (row["dtype"], Decimal(row["max_achievable_tflops"])) in found, row


@needs_corpus
def test_nothing_but_the_noted_chip_is_added_to_the_table() -> None:
    named = {chip.name for row in rows("hardware_catalogue.csv") for chip in chips_of(row)}
    assert {chip.name for chip in CHIPS} - named == {"MI210 / MI250 GCD"}


def test_missing_bandwidth_stays_missing() -> None:
    assert {chip.name for chip in CHIPS if chip.bandwidth_gbps is None} == NO_BANDWIDTH
    assert chip("T4").transfer_ns(1) is None


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_every_figure_has_a_source(chip: Chip) -> None:
    figures = len({(p.unit, p.dtype) for p in chip.peaks}) + len({m.dtype for m in chip.measured})
    figures += (chip.memory_gb is not None) + (chip.bandwidth_gbps is not None)
    assert len(chip.sources) == figures > 0
    assert all(len(source) > 10 for source in chip.sources.values())


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_rates_are_in_order(chip: Chip) -> None:
    def ordered(*dtypes: str) -> bool:
        known = [p.tflops for dtype in dtypes if (p := chip.peak(dtype)) and p.dtype == dtype]
        return known == sorted(known)

    assert len({(p.unit, p.dtype) for p in chip.peaks}) == len(chip.peaks)
    assert {p.dtype for p in (*chip.peaks, *chip.measured)} <= set(DTYPES)
    assert ordered("fp64", "fp32", "tf32", "bf16", "fp8", "fp4")
    assert ordered("fp32", "tf32", "fp16", "fp8", "fp6", "fp4", "nvfp4")
    assert ordered("bf16", "int8", "int4")
    fastest_vector = max((p.tflops for p in chip.peaks if p.unit == "vector"), default=0)
    assert max((p.tflops for p in chip.peaks if p.unit == "matrix"), default=fastest_vector) >= fastest_vector


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_nobody_sustains_more_than_the_peak(chip: Chip) -> None:
    for measured in chip.measured:
        peak = chip.peak(measured.dtype)
        assert peak is not None
        assert peak.tflops * Decimal("0.4") < measured.tflops < peak.tflops


SPARSE_OR_WRONG = [  # chip, type, the figure in circulation, the dense one
    ("A100 SXM 80GB", "bf16", 624, 312),
    ("A100 PCIe 80GB", "bf16", 624, 312),
    ("A100 40GB", "bf16", 624, 312),
    ("A100 SXM 80GB", "tf32", 312, 156),
    ("H100 SXM", "bf16", 1979, "989.4"),
    ("H100 SXM", "fp8", 3958, "1978.9"),
    ("H100 PCIe", "bf16", 1513, 756),
    ("H100 NVL", "bf16", "1978.8", 835),
    ("H200 SXM", "bf16", 2000, "989.4"),
    ("L4", "bf16", 242, 121),
    ("L40S", "bf16", 733, 362),
    ("A10", "bf16", 250, 125),
    ("A40", "bf16", "37.4", "149.7"),
    ("RTX A6000", "bf16", "309.7", "154.85"),
    ("RTX 4090", "bf16", "82.6", "165.2"),
    ("B200 SXM", "bf16", 4500, 2250),
    ("GB200", "bf16", 5000, 2500),
    ("MI300X", "bf16", "2614.9", "1307.4"),
    ("MI325X", "bf16", "2614.9", "1307.4"),
    ("MI355X", "fp8", 10100, 5000),
    ("MI250X GCD", "bf16", 383, "191.5"),
    ("Gaudi3", "bf16", 1835, 1677),
    ("Trainium2", "bf16", 2563, 667),
    ("Trainium3", "bf16", 2517, 671),
]


@pytest.mark.parametrize(("name", "dtype", "wrong", "dense"), SPARSE_OR_WRONG)
def test_known_confusions(name: str, dtype: str, wrong: float | str, dense: float | str) -> None:
    peak = chip(name).peak(dtype)
    assert peak is not None
    assert peak.tflops == Decimal(dense) != Decimal(wrong)


@pytest.mark.parametrize(
    "name",
    [
        "H100 SXM",
        "H200 SXM",
        "H100 PCIe",
        "B200 SXM",
        "GB200",
        "B300 SXM",
        "GB300",
        "L4",
        "RTX 4090",
        "MI300X",
        "MI325X",
        "MI355X",
        "TPU7x core",
    ],
)
def test_fp8_is_twice_bf16_where_the_vendor_says_so(name: str) -> None:
    fp8, bf16 = chip(name).peak("fp8"), chip(name).peak("bf16")
    assert fp8 is not None
    assert bf16 is not None
    assert abs(fp8.tflops / bf16.tflops - 2) < Decimal("0.002")


@pytest.mark.parametrize("name", ["TPU v6e", "TPU v5p", "Gaudi3"])
def test_fp8_is_no_faster_than_bf16_where_the_vendor_says_so(name: str) -> None:
    fp8, bf16 = chip(name).peak("fp8"), chip(name).peak("bf16")
    assert fp8 is not None
    assert bf16 is not None
    assert fp8.tflops == bf16.tflops


@pytest.mark.parametrize("name", ["A100 SXM 80GB", "A10", "A40", "V100 SXM2 32GB", "T4", "MI250X GCD"])
def test_no_fp8_before_it_existed(name: str) -> None:
    assert chip(name).peak("fp8") is None


@pytest.mark.parametrize(
    ("name", "dtype", "package"),
    [
        ("MI250X GCD", "bf16", 383),
        ("TPU v2 core", "bf16", 45),
        ("TPU v3 core", "bf16", 123),
        ("TPU7x core", "bf16", 2307),
        ("TPU7x core", "fp8", 4614),
        ("Trainium1 core", "bf16", 190),
    ],
)
def test_a_half_is_half(name: str, dtype: str, package: int) -> None:
    peak = chip(name).peak(dtype)
    assert peak is not None
    assert peak.tflops * 2 == package
    assert chip(name).devices_per_package == 2
    assert chip(name).device


def test_names_are_unique_but_for_those_that_two_chips_report() -> None:
    shared = {key for key, chips in load().names.items() if len(chips) > 1}
    assert shared == {name_key(name) for name in ("AMD Instinct MI250X / MI250", "v100-sxm", "v100-pcie")}
    assert Counter(name_key(chip.name) for chip in CHIPS).most_common(1)[0][1] == 1
    assert all(find(chip.name) is chip for chip in CHIPS)


def test_the_import_is_light() -> None:
    code = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'parsers')]!r}; import mpg_cli.hardware; "
        "print([m for m in ('polars', 'pyarrow', 'rich', 'typer', 'tomllib', 'difflib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "[]\n"
