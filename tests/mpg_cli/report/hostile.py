"""Reports in which every string is hostile, or every figure is zero or missing."""

from __future__ import annotations

from dataclasses import replace

import orjson

from mpg_cli.report.model import (
    Breakdown,
    Collective,
    Communicator,
    Dashboard,
    DeviceWitness,
    Evidence,
    Finding,
    Goodput,
    Hotspot,
    InferenceStep,
    LedgerRow,
    NameRule,
    Op,
    Price,
    ProfiledKernel,
    Ratio,
    Report,
    Roofline,
    Segment,
    Source,
    Step,
    StepLedger,
    StepOutlier,
    StepSpread,
    Totals,
    Unmodelled,
    Warning,  # noqa: A004
    Window,
    Witness,
)
from tests.mpg_cli.report.reports import device, kernel, ledger, quality, source, two_ranks

HOSTILE = (
    "[bold red]x[/] | `a` <img src=x onerror=alert(1)> ![i](http://evil/x.png) [l](javascript:x) &amp; \\|"
    " @team #1\n# title\r\n\x1b[2J\x1b]0;pwned\x07\x9b31m\u202egnp.exe\u2066\u200b\x00\ud800"
    " e\u0301\u0301 $x$ www.evil.example \\"
)
NAMES = (
    HOSTILE,
    "\\",
    "||||",
    "`",
    "``",
    "-->",
    "# x",
    "x" * 5_000,
    "核" * 700,
    "[/bold]",
    ":tada:",
    "",
    " ",
    "e" + "\u0301" * 300,
    "\U000e0041\U000e0042",
)


def operator(name: str, number: int) -> Op:
    """An operator called `name`, whose arguments are `name` too, as a text and as what JSON holds."""
    dims = (name, orjson.dumps([[1, 2], name.encode("utf-8", "replace").decode()]).decode())[number % 2]
    times = (0.5, 2.0, 4.0, name, 0.1, 900, 0, name)
    return Op(name, dims, dims, 1, 1, 1000, 0.1, 500, 250, *times)


def attribution(names: tuple[str, ...]) -> dict[str, object]:
    """Every part that says why the chips waited, with the given strings in it."""
    evidence = tuple(Evidence(n, n, n, 1, 1_001, 1) for n in names)
    return {
        "findings": tuple(Finding(n, n, n, n, n, 10, 0.1, 1.1, n, evidence, (n, n), 0.5) for n in names),
        "hotspots": tuple(Hotspot(n, n, n, 10, 0.1, 1, n, 0, 1, 1_001, 1) for n in names),
        "dashboard": Dashboard(0.5, 0.1, None, None, 0.5, 0.5, {"sm_activity": names[0], "occupancy": names[-1]}),
        "communicators": tuple(
            Communicator(n, n, 2, (0, 1), 1, 10, 5, 5, 1, 1, {n: 1}, 1, 1.0, n, n) for n in names
        ),
        "step_spread": StepSpread(1, 10, 0, 10, 10, 10),
        "outliers": tuple(StepOutlier(n, 0, 0, n, 10, 1, n, 1) for n in names),
        "per_step": tuple(StepLedger(n, 0, 0, n, 10, {n: 10}) for n in names),
        "inference": tuple(InferenceStep(n, 0, 0, n, n, 1, 1, 10, 10, 10, 10) for n in names),
        "breakdown": tuple(
            Breakdown(by, n, parent, 1, 1, 1, 10, 10, 10, 0, 0, 0, 0.1)
            for by in (names[0], names[-1])
            for n, parent in zip(names, names[1:] + names[:1], strict=True)
        ),
        "segments": tuple(Segment(names[0], n, 10, 10, 5, 1, {n: 5}) for n in names),
        "price": Price(2.5, None),
        "profiled": tuple(
            ProfiledKernel(n, n, n, 1, 10, 0.1, 1, 0.5, None, 0.5, 0.5, 1.5, None, n, n) for n in names
        ),
        "witness": Witness(
            1.0, 0.5, 0.5, None, 0.5, 0.5, 0.5, 1e9, names,
            tuple(DeviceWitness(n, None, 1, 0, 0.5, 1.0, 1, 10, 0.5, None, 0.5, 0.5, 0.5, None) for n in names),
        ),
    }  # fmt: skip


def named(*names: str) -> Report:
    """A report with the given strings wherever a string comes from the input."""
    hostile, name = names[0], names[-1]
    base = two_ranks()
    quality_ = replace(
        base.quality,
        grade_reasons=(hostile, name),
        unknown_names=tuple(kernel(n, n, n, 1, 1, 0.1) for n in names),
        windows=tuple(replace(window, source=hostile, basis=name) for window in base.quality.windows),
    )
    ratio = Ratio(0.5, 1, 2, hostile, 0.5)
    return replace(
        base,
        sources=tuple(replace(source(n), framework=n, format=n, host=n, rank=None) for n in names),
        warnings=tuple(Warning(n, n, 2, n) for n in names),
        devices=tuple(replace(d, name=n, source=n, uuid=n) for n in names for d in base.devices),
        steps=tuple(replace(s, step=n, source=n) for n in names for s in base.steps),
        collectives=tuple(
            replace(c, name=n, group=n, matched_by=n, wait_ns={n: 1, "1": 0}, reason=n, late_ns=1)
            for n in names
            for c in base.collectives[:2]
        ),
        goodput=Goodput(None, ratio, None, None, mfu=ratio, reasons={"sg": hostile, "pg": name}),
        ledger=tuple(LedgerRow(n, n, n, 10, 0.1, n) for n in names),
        kernels=tuple(kernel(n, n, n, 1, 10, 0.1) for n in names),
        name_rules=tuple(NameRule(n, n, 1, 10, 0.1) for n in names),
        quality=quality_,
        ops=tuple(operator(n, i) for i, n in enumerate(names)),
        unmodelled=tuple(Unmodelled(n, 1, 10, 0.1) for n in names),
        rooflines=(Roofline(hostile, name, 100.0, 1000.0),),
        mpg_version=hostile,
        **attribution(names),  # type: ignore[arg-type]
    )


def hostile() -> Report:
    return named(*NAMES)


def zeros() -> Report:
    """Everything there, everything zero, and not a number where a number may be missing."""
    nan = float("nan")
    flat = replace(device("a", 0, 0, (0, 0, 0, 0), kernels=0, name=None), process=None)
    return Report(
        sources=(Source("a", "pytorch", "", 0),),
        warnings=(Warning("no_steps", ""),),
        devices=(flat, replace(flat, rank=None)),
        steps=(Step("a", 0, 0, 0, 0, 0, 0, 0, 0),),
        collectives=(
            Collective(0, "", None, None, "", 0, {}, 0, 0),
            Collective(1, "", None, None, "order", 0, {"0": 0, "1": 0}, 0, 0),
        ),
        goodput=Goodput(None, Ratio(nan, 0, 0, "", nan), None, None, rg_min=nan),
        ledger=ledger({"productive": 0, "unknown": 0}),
        kernels=(kernel("", "", "", 0, 0, nan),),
        name_rules=(NameRule("", "", 0, 0, nan),),
        totals=Totals(0, 0, 0, 0.0, 0),
        ops=(Op("", "", "", 0, 0, 0, nan, 1, 0, nan, nan, nan, "", nan, 0, 0, ""),),
        unmodelled=(Unmodelled("", 0, 0, nan),),
        rooflines=(Roofline("", "", nan, nan),),
        quality=quality((Window("a", "", 0, 0, 0, 0, 0, 0),), ""),
        findings=(Finding("", "", "", "", "", 0, nan, nan, "", (Evidence(""),), (), nan),),
        hotspots=(Hotspot("", "", None, 0, nan, 0, "", None, None, None, None),),
        dashboard=Dashboard(nan, nan, None, nan, nan, nan),
        communicators=(Communicator("", None, None, (), 0, 0, 0, 0, None, None, {}, None, nan, ""),),
        step_spread=StepSpread(0, 0, 0, 0, 0, 0),
        outliers=(StepOutlier("", None, 0, "", 0, 0, "", 0),),
        per_step=(StepLedger("", None, 0, "", 0, {"": 0}),),
        inference=(InferenceStep("", None, 0, "", "", None, None, 0, 0, None, None),),
        breakdown=(Breakdown("", "", "", 0, 0, 0, 0, 0, 0, 0, 0, 0, nan),),
        segments=(Segment("", "", 0, 0, 0, None, {}),),
        price=Price(nan, 0),
        profiled=(ProfiledKernel("", None, None, 0, 0, nan, None, nan, nan, nan, nan, nan, nan, None, None),),
        witness=Witness(
            nan, nan, nan, nan, nan, nan, nan, nan, (),
            (DeviceWitness("", None, None, 0, nan, nan, 0, 0, nan, nan, nan, nan, nan, nan),) * 2,
        ),
    )  # fmt: skip
