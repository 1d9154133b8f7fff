"""What the hardware counted in the same time, and where that contradicts the account."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Block, Column, Facts, Line, Section, Table
from mpg_cli.report.sections.account import account, amounts
from mpg_cli.report.sections.common import EMPTY, lane, more, table
from mpg_cli.report.text import NONE, cut, plural
from mpg_cli.report.units import duration, number, percent, tenths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.report.model import DeviceWitness, Report, Witness

_MOST = 16
_MEANING = {
    "sm_active": ("SM active", "SMs with at least one warp"),
    "sm_issue": ("SM issue", "cycles in which an SM issued an instruction"),
    "tensor_active": ("tensor active", "cycles in which tensor pipes worked"),
    "dram_read": ("DRAM read", "of the peak of device memory"),
    "dram_write": ("DRAM write", "of the peak of device memory"),
}


def section(report: Report, *, detail: bool) -> Section:
    """The means beside the ratios, what contradicts them, and each device in detail; empty without samples."""
    found = report.witness
    if found is None or found.reason or not found.devices:
        return EMPTY
    blocks: list[Block] = [Facts((*_counted(found), *_account(report, found), _sampled(found)))]
    blocks += [Line(cut(text, 400)) for text in found.disagreements]
    if len(found.devices) > 1:
        most = len(found.devices) if detail else _MOST
        blocks += [_devices(report, found.devices[:most]), *more(len(found.devices), most, "device")]
    return Section("What the hardware counted", tuple(blocks))


def _counted(found: Witness) -> Iterator[tuple[str, str]]:
    for field, (name, meaning) in _MEANING.items():
        value: float | None = getattr(found, field)
        yield name, f"{NONE} not sampled" if value is None else f"{percent(value)}: {meaning}"
    if found.sm_clock_hz is not None and isfinite(found.sm_clock_hz):
        yield "SM clock", f"{found.sm_clock_hz / 1e9:.3f} GHz on average"


def _account(report: Report, found: Witness) -> Iterator[tuple[str, str]]:
    """What the trace says of the same time."""
    books = account(report)
    if found.kernels is not None:
        yield "trace", f"{percent(found.kernels)}: a kernel ran, of any kind"
    for name, meaning in (
        ("rg", "a kernel computed"),
        ("mfu", "useful FLOPs at the peak"),
        ("hfu", "all FLOPs at the peak"),
    ):
        ratio = getattr(report.goodput, name)
        if ratio is not None:
            yield name.upper(), f"{amounts(ratio, books)[0]}: {meaning}"


def _sampled(found: Witness) -> tuple[str, str]:
    samples = sum(device.samples for device in found.devices)
    period = duration(max(device.period_ns for device in found.devices))
    text = f"{plural(samples, 'sample')}, one per {period}, cover {percent(found.coverage)} of the windows"
    few = "; too little to compare" if found.coverage < 0.9 else ""
    return "samples", f"{text}; unsampled time is in no mean{few}"


def _devices(report: Report, devices: tuple[DeviceWitness, ...]) -> Table:
    def share(value: float | None) -> str:
        return NONE if value is None else tenths(value)

    return table(
        (
            (Column("device", "left", least=8), lambda d: lane(report, d.source, d.rank, d.device)),
            (Column("SM\nactive %"), lambda d: share(d.sm_active)),
            (Column("SM\nissue %", drop=3), lambda d: share(d.sm_issue)),
            (Column("tensor\nactive %"), lambda d: share(d.tensor_active)),
            (Column("DRAM\nread %", drop=2), lambda d: share(d.dram_read)),
            (Column("DRAM\nwrite %", drop=1), lambda d: share(d.dram_write)),
            (Column("kernels\n%"), lambda d: tenths(d.kernels)),
            (Column("sampled\n%", drop=4), lambda d: tenths(d.coverage)),
            (Column("samples", drop=5), lambda d: number(d.samples)),
        ),
        devices,
    )
