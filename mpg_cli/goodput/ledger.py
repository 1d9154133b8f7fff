"""The ledger of chip-time: every chip-nanosecond of capacity belongs to exactly one cause.

    Capacity   subject, start_ns, end_ns, chips                    what there is: a device, a node, an attempt
    Claim      subject, start_ns, end_ns, chips, cause, evidence   who says what it was spent on
    Row        subject, cause, chip_ns, origin, evidence           what it was spent on

Subjects and times are int64 and never null, intervals are half-open, `chips` is at least 0, `evidence` is
the id of an activity or null, `origin` is one of ORIGINS. `resolve` makes rows from claims, `split` and
`refine` put detail under a cause, `roll` sums rows into goodput. Each keeps the total exactly; sums are made
in 128 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.taxonomy import LAYERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_cli.goodput.taxonomy import Taxonomy

ORIGINS = ("observed", "inferred", "extrapolated")
ROW_SCHEMA = pl.Schema(
    {"subject": pl.Int64, "cause": pl.String, "chip_ns": pl.Int64, "origin": pl.String, "evidence": pl.Int64}
)
_MAX = 2**63 - 1


class LedgerNotClosed(RuntimeError):  # noqa: N818 - says what happened
    """The rows do not add up to the chip-time they account for: a bug in mpg, never the user's fault."""

    def __init__(self, residual_ns: int, expected_ns: int) -> None:
        super().__init__(f"the ledger is off by {residual_ns} chip-ns of {expected_ns}")
        self.residual_ns = residual_ns


@dataclass(frozen=True, slots=True)
class Resolution:
    """What `resolve` found.

    faults: subject, cause, start_ns, end_ns, chips_claimed, chips_there.
    segments: subject, start_ns, end_ns, cause, chips, evidence; None unless asked for.
    """

    rows: pl.DataFrame
    faults: pl.DataFrame
    segments: pl.DataFrame | None

    def timeline(self) -> pl.DataFrame:
        """The segments; ValueError if `resolve` was not asked for them."""
        if self.segments is None:
            raise ValueError("resolve was not asked for segments")
        return self.segments


@dataclass(frozen=True, slots=True)
class Refinement:
    """What `refine` made. faults: the key, cause (the leaf), parent_ns, child_ns, excess_ns."""

    rows: pl.DataFrame
    faults: pl.DataFrame


class CauseTotal(NamedTuple):
    """All rows of one cause and origin."""

    layer: str
    cause: str
    origin: str
    chip_ns: int


@dataclass(frozen=True, slots=True)
class Rolled:
    """Numerators and denominators, in chip-ns. `ideal_ns` is None while some computing time is not split.

    SG = allocated / capacity, RG = productive / allocated, PG = ideal / productive, MPG = ideal / capacity.
    """

    capacity_ns: int
    allocated_ns: int
    productive_ns: int
    ideal_ns: int | None
    by_cause: tuple[CauseTotal, ...]


def resolve(
    capacity: pl.DataFrame, claims: pl.DataFrame, order: Sequence[str], rest: str, *, segments: bool = False
) -> Resolution:
    """Give every chip-nanosecond of `capacity` to one cause.

    In each interval between two edges the causes are served in `order`: each takes what it claims, as far as
    chips are left, and `rest` keeps the remainder. Claims count only where their subject has capacity.
    Claims of one cause add up, and where they exceed the chips there (not just the chips left) that is a
    fault: see `union_claims` for kernels that run at the same time on one chip. Capacity rows of a subject
    are disjoint.

    `segments` also returns who got what when. The evidence of a segment is a claim of its cause that covers
    all of it: of those that began by then the one that ends last. Adjacent equal segments are joined; `rest`
    has no evidence.

    Raises ValueError for a cause that is not in `order`, for one named twice, for negative or null chips,
    and for a subject whose capacity exceeds 2^63 - 1 chip-ns (292 chip-years: give each node a subject of
    its own).
    """
    expected = _check_capacity(capacity)
    _check_claims(claims, order)
    names = list(dict.fromkeys([*order, rest]))
    numbered = _number_causes(claims, order)
    marked = _mark_covering(numbered) if segments else numbered.with_columns(claim=pl.lit(None, pl.UInt32))
    edges = _edges(capacity, marked, there=len(order))
    pieces, faults = _serve(edges, len(order), names.index(rest), marked["evidence"])
    rows = _sum_pieces(pieces, names)
    check_closed(rows, expected)
    return Resolution(rows, _name_causes(faults, names), _segments(pieces, names) if segments else None)


def union_claims(claims: pl.DataFrame, *, merge: bool = True) -> pl.DataFrame:
    """The claims of each subject, cause and chip count, made disjoint: concurrent kernels claim a chip once.

    With `merge`, overlapping and touching claims become one, with the evidence of the earliest (of several,
    the longest). Without, each claim keeps what no earlier one covers, so that evidence stays true to the
    nanosecond, and claims wholly covered vanish. Claims with different chip counts stay apart, and add up in
    `resolve`.
    """
    by = ["subject", "cause", "chips"]
    reach = col.end_ns.cum_max().over(by)
    solid = claims.filter(col.start_ns < col.end_ns)
    solid = solid.cast({"cause": pl.Enum(solid["cause"].cast(pl.String).unique().drop_nulls().sort())})
    ranked = _rank(solid, by).with_columns(reach=reach)
    ranked = ranked.with_columns(before=col.reach.shift(1).over(by))
    if merge:
        ranked = ranked.with_columns(first=col.before.is_null() | (col.start_ns > col.before))
        last = ranked.filter(col.first.shift(-1, fill_value=True))["reach"]
        disjoint = ranked.filter(col.first).with_columns(end_ns=last)
    else:
        fresh = ranked.filter(col.before.is_null() | (col.end_ns > col.before))
        disjoint = fresh.with_columns(start_ns=pl.max_horizontal("start_ns", "before"))
    return disjoint.select("subject", "start_ns", "end_ns", "chips", col.cause.cast(pl.String), "evidence")


def by_priority(claims: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """`claims` (subject, start_ns, end_ns, cause, evidence) of one chip each made disjoint: segments as of `resolve`.

    Of claims of one cause at one time the earliest holds (`union_claims`).
    """
    one = pl.lit(1, pl.Int64)
    asked = union_claims(claims.with_columns(chips=one), merge=False)
    capacity = intervals.union(claims, ["subject"]).with_columns(chips=one)
    return resolve(capacity, asked, order, "none", segments=True).timeline()


def split(rows: pl.DataFrame, leaf: str, parts: pl.DataFrame, *, origin: str = "inferred") -> pl.DataFrame:
    """Replace each row of cause `leaf` by `parts` in proportion to weight, keeping its chip_ns exactly.

    `parts` has the columns cause and weight (int64, at least 0), and subject where each subject has its own
    parts. A row whose subject has no parts, or only weights of zero, stays. What rounding down leaves goes
    one by one to the largest remainders, the earlier part winning ties (Hamilton's method). The new rows
    have this `origin` (but what was extrapolated stays so) and keep the evidence of the old one.

    Raises ValueError for a weight that is negative or null, and for an unknown origin.
    """
    if origin not in ORIGINS:
        raise ValueError(f"unknown origin {origin!r}; known: {', '.join(ORIGINS)}")
    if not parts.select((col.weight >= 0).fill_null(value=False).all()).item():
        raise ValueError("weights must be at least 0")
    leaves = rows.filter(col.cause == leaf).with_row_index("_row")
    shares = _apportion(leaves, parts)
    kept = leaves.join(shares, on="_row", how="anti")
    origins = pl.when(col.origin == "extrapolated").then("origin").otherwise(pl.lit(origin))
    new = shares.filter(col.chip_ns > 0).with_columns(cause="_part_cause", origin=origins)
    return pl.concat([rows.filter(col.cause != leaf), kept.select(rows.columns), new.select(rows.columns)])


def refine(parent: pl.DataFrame, leaf: str, child: pl.DataFrame, key: str = "subject") -> Refinement:
    """Put the rows of `child` in the place of those of cause `leaf` in `parent`, for each value of `key`.

    What the child's total falls short of the leaf's becomes a row of cause unobserved and origin inferred.
    Where it exceeds the leaf's, the leaf stays, the child is not used, and a fault says by how much. A leaf
    without a child stays. The total is that of `parent` in every case. Columns of `parent` that the child
    lacks are null.
    """
    under = parent.filter(col.cause == leaf)
    budget = _totals(under, key, "parent_ns")
    fit = _totals(child, key, "child_ns").join(budget, on=key, how="left", nulls_equal=True)
    fit = fit.with_columns(col.parent_ns.fill_null(0)).with_columns(excess_ns=col.child_ns - col.parent_ns)
    used = fit.filter(col.excess_ns <= 0)
    short = used.filter(col.excess_ns < 0).select(
        key, cause=pl.lit("unobserved"), chip_ns=(0 - col.excess_ns).cast(pl.Int64), origin=pl.lit("inferred")
    )
    kept = under.join(used, on=key, how="anti", nulls_equal=True)
    new = child.join(used, on=key, how="semi", nulls_equal=True).filter(col.chip_ns != 0)
    rows = pl.concat([parent.filter(col.cause != leaf), kept, new, short], how="diagonal_relaxed")
    amounts = col("parent_ns", "child_ns", "excess_ns").cast(pl.Int64)
    faults = fit.filter(col.excess_ns > 0).select(key, pl.lit(leaf).alias("cause"), amounts)
    return Refinement(rows.select(parent.columns), faults)


def roll(rows: pl.DataFrame, taxonomy: Taxonomy, view: str = "default") -> Rolled:
    """Sum the rows by layer, with causes assigned to layers as in `view`.

    `by_cause` is sorted by layer, then by chip_ns, largest first. Raises KeyError for a cause or a view that
    the taxonomy does not have.
    """
    sums = rows.group_by("cause", "origin").agg(col.chip_ns.cast(pl.Int128).sum()).rows()
    totals = [CauseTotal(taxonomy.layer(cause, view), cause, origin, ns) for cause, origin, ns in sums]
    totals.sort(key=lambda t: (LAYERS.index(t.layer), -t.chip_ns, t.cause, t.origin))
    scheduling, runtime, program = (sum(t.chip_ns for t in totals if t.layer == layer) for layer in LAYERS)
    unsplit = any(t.cause == "productive" and t.chip_ns for t in totals)
    return Rolled(
        capacity_ns=scheduling + runtime + program,
        allocated_ns=runtime + program,
        productive_ns=program,
        ideal_ns=None if unsplit else sum(t.chip_ns for t in totals if t.cause == "ideal"),
        by_cause=tuple(totals),
    )


def check_closed(rows: pl.DataFrame, expected_total_ns: int) -> None:
    """Raise LedgerNotClosed unless the rows sum to `expected_total_ns` exactly."""
    residual = rows.select(col.chip_ns.cast(pl.Int128).sum()).item() - expected_total_ns
    if residual:
        raise LedgerNotClosed(residual, expected_total_ns)


def _check_capacity(capacity: pl.DataFrame) -> int:
    """The total in chip-ns. No row of the ledger can exceed its subject's share, so int64 is wide enough."""
    _check_chips(capacity)
    length = (col.end_ns.cast(pl.Int128) - col.start_ns).clip(0)
    sizes = capacity.group_by("subject").agg((length * col.chips).sum().alias("size"))
    if sizes.filter(col.size > _MAX).height:
        raise ValueError("the capacity of one subject exceeds 2^63 - 1 chip-ns")
    return int(sizes["size"].sum())


def _check_claims(claims: pl.DataFrame, order: Sequence[str]) -> None:
    _check_chips(claims)
    if len(set(order)) < len(order):
        raise ValueError("a cause is named twice in the order")
    unknown = set(claims["cause"].unique()) - set(order)
    if unknown:
        raise ValueError(f"causes without a place in the order: {', '.join(sorted(map(str, unknown)))}")


def _check_chips(frame: pl.DataFrame) -> None:
    chips = frame["chips"]
    if chips.null_count() or (chips < 0).any():
        raise ValueError("chips must be at least 0")
    if chips.cast(pl.Int128).sum() > _MAX:
        raise ValueError("chips add up to more than 2^63 - 1")


def _number_causes(claims: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """The claims that claim anything, with their place in the order as `cause`."""
    place = col.cause.cast(pl.String).replace_strict(list(order), range(len(order))).cast(pl.UInt16)
    solid = claims.filter(col.start_ns < col.end_ns, col.chips > 0)
    return solid.select("subject", "start_ns", "end_ns", col("chips", "evidence").cast(pl.Int64), place)


def _name_causes(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    return frame.with_columns(col.cause.replace_strict(range(len(names)), names, return_dtype=pl.String))


def _rank(claims: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Sorted by `by` and start, the longest first among equal starts: no tie depends on the input's order."""
    ranked = claims.sort("evidence", nulls_last=True).sort("end_ns", descending=True, maintain_order=True)
    # Stable sorts by one integer each take a third of the time of one sort by all columns.
    for column in ("start_ns", *reversed(by)):
        ranked = ranked.sort(column, maintain_order=True)
    return ranked


def _mark_covering(claims: pl.DataFrame) -> pl.DataFrame:
    """Ranked claims; `claim` is the row number where one outlasts all before it of its subject and cause.

    At any instant that a cause claims, the latest of these to have begun covers it: its end is the largest
    so far.
    """
    by = ["subject", "cause"]
    ranked = _rank(claims, by).with_row_index("claim").cast({"claim": pl.UInt32})
    before = col.end_ns.cum_max().shift(1).over(by)
    return ranked.with_columns(claim=pl.when(before.is_null() | (col.end_ns > before)).then("claim"))


def _edges(capacity: pl.DataFrame, claims: pl.DataFrame, there: int) -> pl.DataFrame:
    """One row per edge, by subject and time: the interval from it to the next edge, and what changes at it.

    `delta` is the change in the chips of `cause`, where the number `there` stands for capacity; `claim` is
    null at ends. A subject's deltas add up to zero, so one cumulative sum over all subjects is right for
    each.
    """
    whole = capacity.filter(col.start_ns < col.end_ns).select(
        "subject", "start_ns", "end_ns", col.chips.cast(pl.Int64), cause=pl.lit(there, pl.UInt16)
    )
    spans = pl.concat([claims.drop("evidence"), whole], how="diagonal")
    starts = spans.select("subject", "cause", "claim", at="start_ns", delta="chips")
    ends = spans.select(
        "subject", "cause", pl.lit(None, pl.UInt32).alias("claim"), at="end_ns", delta=-col.chips
    )
    edges = pl.concat([starts, ends]).sort("at").sort("subject", maintain_order=True)
    edges = edges.rename({"at": "start_ns"})
    edges = edges.with_columns(end_ns=col.start_ns.shift(-1), there=_running(there))
    return edges.with_columns(left="there")


def _running(cause: int) -> pl.Expr:
    """The chips of `cause` after each edge."""
    return pl.when(col.cause == cause).then("delta").otherwise(0).cum_sum()


def _serve(
    edges: pl.DataFrame, causes: int, rest: int, evidence: pl.Series
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Serve the causes in turn: the pieces each and `rest` took, and where one claimed more than is there."""
    pieces, faults = [], [_oversubscribed(edges.clear().with_columns(claimed="there"), rest)]
    for cause in range(causes):
        winner = pl.when(col.cause == cause).then("claim").forward_fill()
        edges = edges.with_columns(claimed=_running(cause), winner=winner)
        edges = edges.with_columns(chips=pl.min_horizontal("claimed", "left"))
        pieces.append(_pieces(edges, cause, evidence))
        faults.append(_oversubscribed(edges, cause))
        edges = edges.with_columns(left=col.left - col.chips)
    remainder = edges.with_columns(chips="left", winner=pl.lit(None, pl.UInt32))
    return pl.concat([*pieces, _pieces(remainder, rest, evidence)]), pl.concat(faults)


def _pieces(edges: pl.DataFrame, cause: int, evidence: pl.Series) -> pl.DataFrame:
    """The intervals in which `cause` took chips, each with the evidence of a claim that covers it."""
    solid = edges.lazy().filter(col.chips > 0, col.start_ns < col.end_ns)
    found = solid.select(
        "subject", "start_ns", "end_ns", "chips", "winner", cause=pl.lit(cause, pl.UInt16)
    ).collect()
    found = found.with_columns(evidence=evidence.gather(found["winner"])).drop("winner")
    return join_touching(found, ["subject", "chips", "evidence"])


def _oversubscribed(edges: pl.DataFrame, cause: int) -> pl.DataFrame:
    """The intervals in which `cause` claimed more chips than its subject has."""
    over = edges.lazy().filter(col.claimed > col.there, col.there > 0, col.start_ns < col.end_ns)
    found = over.select(
        "subject", pl.lit(cause, pl.UInt16).alias("cause"), "start_ns", "end_ns",
        chips_claimed="claimed", chips_there="there",
    ).collect()  # fmt: skip
    return join_touching(found, ["subject", "chips_claimed", "chips_there"])


def join_touching(pieces: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Sorted disjoint pieces (start_ns, end_ns…), with neighbours joined where they touch and agree in `same`."""
    differs = (col(name).ne_missing(col(name).shift(1)) for name in same)
    first = pl.any_horizontal(col.start_ns.ne_missing(col.end_ns.shift(1)), *differs)
    marked = pieces.with_columns(first=first)
    ends = marked.filter(col.first.shift(-1, fill_value=True))["end_ns"]
    return marked.filter(col.first).with_columns(end_ns=ends).drop("first")


def _sum_pieces(pieces: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    size = ((col.end_ns - col.start_ns) * col.chips).sum()
    sums = pieces.group_by("subject", "cause").agg(chip_ns=size).sort("subject", "cause")
    rows = _name_causes(sums, names)
    return rows.with_columns(origin=pl.lit("observed"), evidence=pl.lit(None, pl.Int64))


def _segments(pieces: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The pieces by subject and time; those of one instant in the order in which the causes were served."""
    ordered = pieces.sort("start_ns", maintain_order=True).sort("subject", maintain_order=True)
    return _name_causes(ordered, names).select("subject", "start_ns", "end_ns", "cause", "chips", "evidence")


def _apportion(leaves: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """Each leaf's chip_ns divided among its parts by largest remainder; those without weight are left out."""
    by = ["subject"] if "subject" in parts.columns else []
    named = parts.select(*by, col.weight.cast(pl.Int128), _part_cause="cause").with_row_index("_part")
    pairs = leaves.join(named, on=by, nulls_equal=True) if by else leaves.join(named, how="cross")
    pairs = pairs.with_columns(whole=col.weight.sum().over("_row")).filter(col.whole > 0)
    exact = col.chip_ns.cast(pl.Int128) * col.weight  # up to 126 bits
    pairs = pairs.with_columns(share=exact // col.whole, remainder=exact % col.whole)
    pairs = pairs.sort("_row", "remainder", "_part", descending=[False, True, False])
    spare = col.chip_ns - col.share.sum().over("_row")
    extra = pl.int_range(pl.len()).over("_row") < spare
    pairs = pairs.with_columns(chip_ns=col.share.cast(pl.Int64) + extra.cast(pl.Int64))
    return pairs.sort("_row", "_part")


def _totals(rows: pl.DataFrame, key: str, name: str) -> pl.DataFrame:
    return rows.group_by(key, maintain_order=True).agg(col.chip_ns.cast(pl.Int128).sum().alias(name))
