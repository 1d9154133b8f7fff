"""The ratios of the report, each with its reason where it is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.model import Goodput, Ratio

if TYPE_CHECKING:
    from mpg_cli.goodput.ledger import Rolled

GRAPH_ROW_LIMIT = 0.01  # share of the window above which graph-level rows make RG unknowable
REASONS = {
    "sg": "needs a scheduler log; only traces were given",
    "pg": "needs the FLOPs of the operators, which this version does not model",
    "mpg": "needs SG and PG",
    "mfu": "needs the FLOPs of the operators",
    "hfu": "needs the FLOPs of the operators",
}


def goodput(rolled: Rolled, basis: str, view: str) -> Goodput:
    """The goodput of a rolled ledger over the window that `basis` names.

    RG is null above GRAPH_ROW_LIMIT of graph-level rows: at its bounds all of them are idle, or all compute.
    """
    total, productive = rolled.allocated_ns, rolled.productive_ns
    unclassified = sum(t.chip_ns for t in rolled.by_cause if t.cause == "unclassified_busy")
    if not total:
        reason = {"rg": "the window is empty"}
        return Goodput(None, None, None, None, view=view, reasons=REASONS | reason)
    if unclassified > GRAPH_ROW_LIMIT * total:
        share = 100 * unclassified / total
        reason = {"rg": f"{share:.1f} % of the window is graph-level rows: what ran is not recorded"}
        low, high = productive / total, (productive + unclassified) / total
        return Goodput(None, None, None, None, rg_min=low, rg_max=high, view=view, reasons=REASONS | reason)
    rg = Ratio(productive / total, productive, total, basis, 1.0)
    return Goodput(None, rg, None, None, view=view, reasons=dict(REASONS))
