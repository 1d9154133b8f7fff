"""The chips that a dataset ran on, with the ceilings that its kernels are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpg_cli.hardware import Stated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.hardware import Catalogue, Chip, Found
    from mpg_cli.store import Dataset

KEYS = ("source", "process", "device")
ABOUT = ("name", "compute_capability", "sm_count", "memory_bytes", "clock_hz", "bandwidth", "peak_flops")
IDENTITY = ABOUT[:3]
# chip, operand type, TFLOP/s, GB/s, and where the two come from
Ceiling = tuple[str, str, float, float | None, str, str]


def find_chips(
    dataset: Dataset, loaded: Activity, catalogue: Catalogue, named: str | None
) -> tuple[dict[int, Chip], str]:
    """The chip of each subject that has one, and why another has none.

    `named` replaces what the files report. Else figures that the catalogue lacks are those that the file states.
    """
    devices = loaded.subjects.select("subject", *KEYS).join(
        dataset.scan("devices").select(*KEYS, *ABOUT).unique(KEYS).collect(),
        on=KEYS,
        how="left",
        nulls_equal=True,
    )
    chips: dict[int, Chip] = {}
    reason = ""
    for row in devices.select("subject", *ABOUT).sort("subject").iter_rows(named=True):
        found = catalogue.lookup(named) if named else _lookup(catalogue, row)
        chip = found.chip if named or found.part else _stated(row).complete(found.chip)
        if chip:
            chips[row["subject"]] = chip
        else:
            nameless = all(row[what] is None for what in IDENTITY)
            why = "the file does not say what it is" if nameless and not named else found.reason
            reason = f"the chip is not known: {why}; say --chip NAME (see mpg hardware)"
    return chips, reason


def _lookup(catalogue: Catalogue, row: Mapping[str, Any]) -> Found:
    return catalogue.lookup(
        row["name"],
        compute_capability=row["compute_capability"],
        sm_count=row["sm_count"],
        memory_bytes=row["memory_bytes"],
    )


def _stated(row: Mapping[str, Any]) -> Stated:
    return Stated(
        row["name"],
        row["compute_capability"],
        row["sm_count"],
        row["clock_hz"],
        row["bandwidth"],
        row["peak_flops"],
    )


def no_figure(chips: Iterable[Chip], basis: str) -> str:
    """Why a basis cannot be used, "" if it can."""
    if basis == "peak":
        return ""
    missing = {
        chip.name
        for chip in chips
        if (chip.bytes_per_second is None if basis == "roofline" else not chip.measured)
    }
    what = "memory bandwidth" if basis == "roofline" else "sustained rate"
    names = ", ".join(sorted(missing))
    return f"no {what} of {names} is sourced, which --pg-basis {basis} needs" if missing else ""


def ceilings(chips: Iterable[Chip], dtype: str) -> tuple[Ceiling, ...]:
    """The ceilings of each kind of chip for an operand type, where there is a rate for it."""
    found: dict[str, Ceiling] = {}
    for chip in chips:
        peak = chip.peak(dtype) or chip.peak(dtype, "vector")
        if peak is not None:
            bandwidth = None if chip.bandwidth_gbps is None else float(chip.bandwidth_gbps)
            sources = peak.source, chip.bandwidth_source if chip.bandwidth_gbps is not None else ""
            found[chip.name] = (chip.name, dtype, float(peak.tflops), bandwidth, *sources)
    return tuple(found.values())
