"""The ratios of the report, each with its reason where it is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.goodput.reasons import EXECUTED
from mpg_cli.report.model import Goodput, Ratio

if TYPE_CHECKING:
    from mpg_cli.goodput.judging import Judged
    from mpg_cli.goodput.ledger import Rolled
    from mpg_cli.report.model import StepSpread

GRAPH_ROW_LIMIT = 0.01  # share of the window above which graph-level rows make RG unknowable
REASONS = {"sg": "needs a scheduler log; only traces were given", "mpg": "needs SG and PG"}
EMPTY = "the window is empty"
NO_COMPUTING = "no computing in the window"


def goodput(rolled: Rolled, basis: str, view: str, judged: Judged) -> Goodput:
    """The goodput of a rolled ledger over the window that `basis` names.

    RG is null above GRAPH_ROW_LIMIT of graph-level rows: at its bounds all of them are idle, or all compute. PG, MFU
    and HFU are null with it, and where computing time could not be judged.
    """
    reasons = dict(REASONS)
    low, high = _graph_bounds(rolled, reasons)
    rg = None if "rg" in reasons else _ratio(rolled.productive_ns, rolled.allocated_ns, basis)
    reason = judged.reason or reasons.get("rg", "") or ("" if rolled.productive_ns else NO_COMPUTING)
    if reason:
        reasons |= dict.fromkeys(("pg", "mfu", "hfu"), reason)
    elif judged.hfu_ns is None:
        reasons["hfu"] = "declared FLOPs do not tell recomputation"
    elif judged.mfu_ns is None:
        reasons["mfu"] = EXECUTED
    pg_min, pg_max = _bounds(rolled, judged) if reason and judged.rows is not None else (None, None)
    return Goodput(
        None,
        rg,
        None
        if reason
        else _ratio(judged.ideal_ns, rolled.productive_ns, judged.basis, judged.basis_coverage),
        None,
        mfu=None
        if reason or judged.mfu_ns is None
        else _ratio(judged.mfu_ns, rolled.allocated_ns, judged.peak_basis, judged.coverage),
        hfu=None
        if reason or judged.hfu_ns is None
        else _ratio(judged.hfu_ns, rolled.allocated_ns, judged.peak_basis, judged.coverage),
        rg_min=low,
        rg_max=high,
        pg_min=pg_min,
        pg_max=pg_max,
        view=view,
        reasons=reasons,
    )


def mfu_of_a_step(ratios: Goodput, spread: StepSpread | None, steps: int) -> float | None:
    """MFU of a step of median length that does the mean work of a step.

    spread: of the listed steps, one per device; steps: how many there are in the windows. None if some are not listed.
    """
    if ratios.mfu is None or spread is None or spread.count != steps or not spread.median_ns:
        return None
    return ratios.mfu.numerator_ns / steps / spread.median_ns


def _bounds(rolled: Rolled, judged: Judged) -> tuple[float | None, float | None]:
    """PG if all that is not judged (no model, or graph-level rows) were at its worst, and at its best."""
    open_ns = {cause: _sum(rolled, cause) for cause in ("unmodelled", "unclassified_busy")}
    whole = rolled.productive_ns + open_ns["unclassified_busy"]
    if not whole:
        return None, None
    return judged.ideal_ns / whole, (judged.ideal_ns + sum(open_ns.values())) / whole


def _sum(rolled: Rolled, cause: str) -> int:
    return sum(total.chip_ns for total in rolled.by_cause if total.cause == cause)


def _graph_bounds(rolled: Rolled, reasons: dict[str, str]) -> tuple[float | None, float | None]:
    """The bounds of RG where it is null because of graph-level rows; the reason is added to `reasons`."""
    total = rolled.allocated_ns
    unclassified = _sum(rolled, "unclassified_busy")
    if not total:
        reasons["rg"] = EMPTY
    elif unclassified > GRAPH_ROW_LIMIT * total:
        share = 100 * unclassified / total
        reasons["rg"] = f"{share:.1f} % of the window is graph-level rows: what ran is not recorded"
        return rolled.productive_ns / total, (rolled.productive_ns + unclassified) / total
    return None, None


def _ratio(part: int, whole: int, basis: str, coverage: float | None = None) -> Ratio | None:
    return Ratio(part / whole, part, whole, basis, 1.0 if coverage is None else coverage) if whole else None
