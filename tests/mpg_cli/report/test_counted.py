"""What was measured of kernels, and what the hardware counted, as sections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpg_cli.report.model import Witness
from mpg_cli.report.sections.operators import operator
from tests.mpg_cli.report import counted, programs, reports
from tests.mpg_cli.report.parts import facts, lines, section, tables, titles

COUNTED = "What the hardware counted"
MEASURED = "What Nsight Compute measured: kernels with 97.0 % of computing"


def test_the_means_stand_beside_the_ratios() -> None:
    found = dict(facts(section(counted.profiled(), COUNTED)))
    assert found["SM active"] == "41.9 %: SMs with at least one warp"
    assert found["tensor active"] == "0.0 %: cycles in which tensor pipes worked"
    assert found["SM clock"] == "1.710 GHz on average"
    assert found["trace"] == "90.0 %: a kernel ran, of any kind"
    assert found["RG"] == "83.3 %: a kernel computed"
    assert found["HFU"] == "28.9 %: all FLOPs at the peak"
    assert "MFU" not in found
    assert found["samples"] == (
        "2,220 samples, one per 100.0 µs, cover 92.5 % of the windows; unsampled time is in no mean"
    )


def test_what_was_not_sampled_is_not_zero() -> None:
    base = counted.profiled()
    assert base.witness is not None
    blind = replace(base.witness, tensor_active=None, sm_clock_hz=None, coverage=0.5)
    found = dict(facts(section(replace(base, witness=blind), COUNTED)))
    assert found["tensor active"] == "— not sampled"
    assert "SM clock" not in found
    assert found["samples"].endswith("; too little to compare")


def test_disagreements_are_said_in_words() -> None:
    assert lines(section(counted.profiled(), COUNTED))[0].startswith(
        "kernels ran for 90.0 % of the time, but"
    )


def test_devices_are_listed_where_there_are_several() -> None:
    base = counted.profiled()
    (found,) = tables(section(base, COUNTED))
    assert [row.cells for row in found.rows] == [
        ("device 0", "41.0", "20.0", "0.0", "30.0", "10.0", "90.0", "100.0", "1,200"),
        ("device 1", "43.0", "20.0", "—", "30.0", "10.0", "90.0", "85.0", "1,020"),
    ]
    assert base.witness is not None
    one = replace(base.witness, devices=base.witness.devices[:1])
    assert tables(section(replace(base, witness=one), COUNTED)) == []


@pytest.mark.parametrize(
    "found", [None, Witness(0.0, None, None, None, None, None, None, None, reason="no samples")]
)
def test_without_samples_there_is_no_section(found: Witness | None) -> None:
    assert COUNTED not in titles(replace(counted.profiled(), witness=found))


def test_profiled_kernels() -> None:
    found = section(counted.profiled(), MEASURED)
    (table,) = tables(found)
    assert [row.cells[1:] for row in table.rows] == [
        ("70.0", "12", "71.3", "0.0", "12.1", "48.2", "4.27", "86,000.0", "fp32", f"{counted.SGEMM} 64×64×1 · 64×64×1"),
        ("25.0", "12", "9.0", "0.0", "91.4", "80.0", "0.50", "0.0", "", table.rows[1].cells[-1]),
        ("3.0", "12", "—", "—", "—", "—", "—", "—", "", f"{counted.OTHER} 1×1×1 · 32×1×1"),
        ("2.0", "12", "—", "40.0", "—", "—", "—", "—", "", f"{counted.GEMM} 8×8×1 · 256×1×1"),
    ]  # fmt: skip
    assert lines(found)[-1] == (
        "Without FLOPs: not among the profiled kernels (3.0 % of computing); "
        "not all kinds of operations were counted (2.0 % of computing)."
    )


def test_many_kernels_are_cut() -> None:
    base = counted.profiled()
    many = replace(base, profiled=base.profiled[:1] * 12)
    title = next(title for title in titles(many) if title.startswith("What Nsight Compute"))
    assert len(tables(section(many, title))[0].rows) == 10
    assert lines(section(many, title))[-1] == "2 more kernels with 140.0 % of computing."
    assert len(tables(section(many, title, detail=True))[0].rows) == 12


def test_without_a_profile_there_is_no_section() -> None:
    assert not [title for title in titles(reports.single()) if title.startswith("What Nsight Compute")]


def test_a_measured_kernel_among_the_operators() -> None:
    report = counted.profiled()
    assert operator(report.ops[0]) == f"{counted.SGEMM} 64×64×1 · 64×64×1 fp32"
    found = section(report, "Operators by recoverable time")
    assert tables(found)[0].rows[0].cells[-2] == "#"
    assert lines(found)[0].endswith("(29.8 TFLOP/s fp32, 760 GB/s as the trace states):")
    assert lines(found)[1].startswith("# kernels, with FLOPs counted by Nsight Compute")


def test_where_flops_come_from_is_said_of_the_trust() -> None:
    models = dict(facts(section(counted.profiled(), "How far to trust this")))["models"]
    assert models == "FLOPs are known for 95.0 % of computing time, for 70.0 % by Nsight Compute"
    assert "models cover" in dict(facts(section(programs.owlv2(), "How far to trust this")))["models"]
