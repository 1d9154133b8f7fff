"""What a utilisation dashboard would have shown for the same time, beside what was computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.blocks import Facts, Section
from mpg_cli.report.sections.account import account, amounts
from mpg_cli.report.sections.common import EMPTY
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.report.model import Dashboard, Report


def section(report: Report, *, detail: bool) -> Section:
    """From what looks best to what was useful: each line counts less than the one before it."""
    del detail
    if report.dashboard is None:
        return EMPTY
    facts = (*_seen(report.dashboard, *dashboard_of(report)), *_computed(report))
    return Section("What a dashboard shows for the same time", (Facts(facts),))


def dashboard_of(report: Report) -> tuple[str, str]:
    """What the vendor of the devices calls the share of time with any work on them, and who shows it."""
    names = [(device.name or "").casefold() for device in report.devices]
    if names and all("tpu" in name for name in names):
        return "duty cycle", "Cloud Monitoring"
    if names and all(name.startswith("amd") for name in names):
        return "GPU use", "rocm-smi"
    return "GPU-Util", "nvidia-smi"


def _seen(seen: Dashboard, label: str, who: str) -> Iterator[tuple[str, str]]:
    what = "an operation ran" if label == "duty cycle" else "a kernel was resident"
    yield label, f"{percent(seen.gpu_util)}: {what} ({who})"
    if seen.waiting > 0:
        yield (
            "only collectives",
            f"{percent(seen.waiting)} of the window: no other kernel was resident, be it waiting or moving data",
        )
    if label == "duty cycle":  # what follows is of SMs
        return
    blocks = f"blocks launched over the SMs there are{_known(seen.known)}"
    yield "SM activity", _figure(seen, "sm_activity", blocks)
    warps = "of the warps that fit on the SMs, as the profiler estimates per kernel"
    yield "occupancy", _figure(seen, "occupancy", warps + _known(seen.occupancy_known))


def _known(share: float) -> str:
    return f", known for {percent(share)} of kernel time" if share < 0.9995 else ""


def _figure(seen: Dashboard, name: str, meaning: str) -> str:
    value: float | None = getattr(seen, name)
    if value is None:
        return f"{NONE} {cut(seen.reasons.get(name) or 'not known', 200)}"
    return f"{percent(value)}: {meaning}"


def _computed(report: Report) -> Iterator[tuple[str, str]]:
    books = account(report)
    rg, mfu = report.goodput.rg, report.goodput.mfu
    if rg is not None:
        what = (
            "a kernel computed" if report.goodput.view == "default" else "a kernel computed or communicated"
        )
        yield "RG", f"{amounts(rg, books)[0]}: {what}"
    if mfu is not None:
        yield "MFU", f"{amounts(mfu, books)[0]}: useful FLOPs of those possible at the peak"
