"""The ratios of the report, each with its reason where it is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.model import Goodput, Ratio

if TYPE_CHECKING:
    from mpg_cli.goodput.judging import Judged
    from mpg_cli.goodput.ledger import Rolled

GRAPH_ROW_LIMIT = 0.01  # share of the window above which graph-level rows make RG unknowable
REASONS = {"sg": "needs a scheduler log; only traces were given", "mpg": "needs SG and PG"}
EMPTY = "the window is empty"


def goodput(rolled: Rolled, basis: str, view: str, judged: Judged) -> Goodput:
    """The goodput of a rolled ledger over the window that `basis` names.

    RG is null above GRAPH_ROW_LIMIT of graph-level rows: at its bounds all of them are idle, or all compute. PG, MFU
    and HFU are null where computing time could not be judged; PG's bounds are those of the unmodelled time.
    """
    reasons = dict(REASONS)
    low, high = _graph_bounds(rolled, reasons)
    rg = None if "rg" in reasons else _ratio(rolled.productive_ns, rolled.allocated_ns, basis)
    reason = EMPTY if not rolled.productive_ns else judged.reason
    if reason:
        reasons |= dict.fromkeys(("pg", "mfu", "hfu"), reason)
    known = not reason and judged.rows is not None
    unmodelled = sum(t.chip_ns for t in rolled.by_cause if t.cause == "unmodelled")
    partly = judged.rows is not None and not known and rolled.productive_ns > 0
    pg_basis = judged.basis
    return Goodput(
        None,
        rg,
        _ratio(judged.ideal_ns, rolled.productive_ns, pg_basis, judged.coverage) if known else None,
        None,
        mfu=_ratio(judged.ideal_ns, rolled.allocated_ns, pg_basis) if known else None,
        hfu=_ratio(judged.hardware_ideal_ns, rolled.allocated_ns, pg_basis) if known else None,
        rg_min=low,
        rg_max=high,
        pg_min=judged.ideal_ns / rolled.productive_ns if partly else None,
        pg_max=(judged.ideal_ns + unmodelled) / rolled.productive_ns if partly else None,
        view=view,
        reasons=reasons,
    )


def _graph_bounds(rolled: Rolled, reasons: dict[str, str]) -> tuple[float | None, float | None]:
    """The bounds of RG where it is null because of graph-level rows; the reason is added to `reasons`."""
    total = rolled.allocated_ns
    unclassified = sum(t.chip_ns for t in rolled.by_cause if t.cause == "unclassified_busy")
    if not total:
        reasons["rg"] = EMPTY
    elif unclassified > GRAPH_ROW_LIMIT * total:
        share = 100 * unclassified / total
        reasons["rg"] = f"{share:.1f} % of the window is graph-level rows: what ran is not recorded"
        return rolled.productive_ns / total, (rolled.productive_ns + unclassified) / total
    return None, None


def _ratio(part: int, whole: int, basis: str, coverage: float | None = None) -> Ratio | None:
    return Ratio(part / whole, part, whole, basis, 1.0 if coverage is None else coverage) if whole else None
