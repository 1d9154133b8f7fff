"""Rules on collectives: who is late, and what is not hidden."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.findings import text
from mpg_cli.findings.facts import HOST, Found, longest
from mpg_cli.findings.waits import Blame, blame, certain
from mpg_cli.goodput import intervals
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.goodput.windows import OWNER
from mpg_cli.report.model import Evidence
from mpg_cli.report.units import duration, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_cli.findings.facts import Facts
    from mpg_cli.report.model import Communicator

OF_REASON = {
    "compute": ("productive",), "host": HOST, "copy": ("memory_copy",), "other": ("unclassified_busy",)
}  # fmt: skip
WHY = {
    "compute": "it computes longer",
    "host": "its host is late",
    "copy": "it copies memory longer",
    "communication": "it is held up in other communication",
    "other": "it is held up by other work",
    "unknown": "the recording does not say why",
}
BEHIND_BACKWARD = "behind the rest of the backward pass, on a stream of its own"
OVERLAP = {
    "reduce_?scatter": (
        f"Reduce each bucket or layer as soon as its gradients are ready, {BEHIND_BACKWARD}",
        "Larger buckets or wrapping units; in FSDP check backward prefetch and the limit on all-gathers",
    ),
    "all_?gather": (
        "Prefetch the parameters of the next layer, forward and backward, behind the layer before",
        "Keep parameters gathered where memory allows, or shard within a node only",
    ),
    "all_?reduce": (
        f"Reduce gradients in buckets as they become ready, {BEHIND_BACKWARD}",
        "Move less: reduce in lower precision, or accumulate gradients over several micro-batches",
    ),
    "all_?to_?all": (
        "Split the batch in two, and exchange one half while the other computes",
        "Keep the exchange within the fastest domain, and send tokens in lower precision",
    ),
}


def straggler(facts: Facts) -> Iterator[Found]:
    """A rank that arrives last for a reason other than its input, which has a rule of its own."""
    for rank in sorted({c.last_rank for c in facts.collectives if certain(c)}):
        guilt = blame(facts, lambda c, rank=rank: c.last_rank == rank and c.reason != "input")  # type: ignore[misc]
        if guilt.saved_ns:
            yield _late(facts, rank, guilt)


def _late(facts: Facts, rank: int, guilt: Blame) -> Found:
    own = sum(_own_excess(facts, rank, guilt, reason) for reason in OF_REASON)
    reason = _main_reason(facts, guilt)
    why = WHY.get(reason, "for several reasons")
    rows = [
        Evidence(
            f"{_counted(facts, rank, guilt)}: the others waited {duration(guilt.waited_ns)} of chip-time there "
            "(communication_wait in the ledger)"
        ),
        Evidence(
            f"the rank before it comes {text.margins(guilt)} earlier: fixing it alone saves the others at most "
            f"{duration(guilt.saved_ns)} of that, and itself {duration(own)} of its lateness (no more than that "
            "margin, nor than the ledger has)"
        ),
        _reasons(guilt),
        *_worst(facts, guilt),
        *_at_fault(facts, rank, reason),
    ]
    title = f"Rank {rank} keeps the others waiting: {why}"
    fixes = load_taxonomy().cause("communication_wait").fixes
    if reason == "host":
        fixes = (*load_taxonomy().cause("host_code").fixes, fixes[-1])
    chip_ns = guilt.saved_ns + own
    return Found("straggler", "communication_wait", title, chip_ns, f"rank {rank}", tuple(rows), fixes)


def _counted(facts: Facts, rank: int, guilt: Blame) -> str:
    """In how many collectives the rank was last, of those that have a last rank."""
    clear, whole = sum(map(certain, facts.collectives)), len(facts.collectives)
    said = f"last in {len(guilt.collectives)} of {text.plural(whole, 'collective')}"
    if clear < whole:
        said = (
            f"last in {len(guilt.collectives)} of the {text.plural(clear, 'collective')} with a clear order "
            f"({whole} in all)"
        )
    starved = sum(certain(c) and c.last_rank == rank and c.reason == "input" for c in facts.collectives)
    return f"{said}, not counting {starved} for want of input" if starved else said


def _own_excess(facts: Facts, rank: int, guilt: Blame, reason: str) -> int:
    """What of the late rank's time beyond the median of the others would go if it came as early as the rank before it.

    At most what the ledger has there.
    """
    late = (min(c.late_ns, c.margin_ns) for c in guilt.collectives if c.reason == reason)
    return min(sum(late), facts.of_rank(rank, *OF_REASON[reason]))


def _main_reason(facts: Facts, guilt: Blame) -> str:
    """The reason of most of the lateness; "" where none has more than half, unknown where most waits have no reason."""
    mine = {c.index for c in guilt.collectives}
    nameless = blame(facts, lambda c: c.index in mine and c.reason == "unknown")
    if nameless.waited_ns * 2 > guilt.waited_ns:
        return "unknown"
    total = sum(c.late_ns for c in guilt.collectives)
    late = {reason: sum(c.late_ns for c in guilt.collectives if c.reason == reason) for reason in WHY}
    return next((reason for reason, ns in late.items() if ns * 2 > total), "")


def _reasons(guilt: Blame) -> Evidence:
    counts: dict[str, list[int]] = {}
    for each in guilt.collectives:
        counts.setdefault(each.reason, []).append(each.late_ns)
    said = [f"{reason} in {len(late)} ({duration(sum(late))})" for reason, late in sorted(counts.items())]
    return Evidence(f"what it spent more time on than the median of the others: {', '.join(said)}")


def _worst(facts: Facts, guilt: Blame) -> tuple[Evidence, ...]:
    """The longest exposed wait of one rank in one collective, where that rank shows it."""
    pieces = intervals.total(guilt.waits, ["subject", "index"])
    records = facts.communication.group_by("subject", "index", maintain_order=True).agg(
        col("kernel").first(), start_ns=col("start_ns").min(), to_ns=col("end_ns").max()
    )
    rows = longest(pieces.join(records, on=["subject", "index"])).join(facts.subjects, on="subject")
    whole = {c.index: c.wait_ns for c in guilt.collectives}
    return tuple(
        Evidence(
            f"longest wait: {_exposure(row['length_ns'], whole[row['index']][str(row['rank'])])}"
            f"{facts.on(row['source'])} in collective {row['index']}{facts.in_step(row['source'], row['start_ns'])}",
            facts.paths[row["source"]],
            row["kernel"],
            None,
            row["start_ns"],
            row["to_ns"] - row["start_ns"],
        )
        for row in rows.iter_rows(named=True)
    )


def _exposure(exposed: int, whole: int) -> str:
    """The whole of a wait and how much of it is exposed."""
    return f"{duration(whole)} ({'all' if exposed == whole else duration(exposed)} of it exposed)"


def _at_fault(facts: Facts, rank: int, reason: str) -> tuple[Evidence, ...]:
    """What the host of the late rank did in most of the time that its device was idle."""
    if reason != "host":
        return ()
    spots = [spot for spot in facts.rank_hotspots(rank) if spot.cause in HOST]
    top = sorted(spots, key=lambda spot: (-spot.chip_ns, spot.name))[:1]
    return tuple(text.hotspot(spot, f" of idle time on rank {rank}") for spot in top)


def waiting(facts: Facts) -> Iterator[Found]:
    """Waiting that fixing one rank alone would not end: near ties, the ranks before the last, or no match."""
    late = blame(facts, lambda _: True)
    rest = facts.of("communication_wait") - late.saved_ns
    ties, starts = sum(c.near_tie for c in facts.collectives), sum(c.transient for c in facts.collectives)
    rows = (
        text.amount(facts, rest, "waiting in collectives that no single rank alone could end"),
        Evidence(
            f"{duration(late.waited_ns - late.saved_ns)} of it where one rank was clearly last, but before the "
            "next-to-last came"
        ),
        Evidence(
            f"{text.plural(len(facts.collectives), 'collective')} in all; near ties of the last two ranks: {ties}; at "
            f"the start of the recording: {starts}"
        ),
    )
    title = "Ranks wait for each other, and no single one is to blame"
    yield Found("communication_wait", "communication_wait", title, rest, "", rows)


def imbalance(facts: Facts) -> Iterator[Found]:
    """Ranks that compute for different times: the waiting that an even split of the work would save."""
    computing = facts.by_subject.filter((col("cause") == "productive") & col("rank").is_not_null())
    steps = facts.steps.group_by(OWNER).len()
    counts = steps.join(computing, on=OWNER, how="right", nulls_equal=True)["len"]
    if computing.height < 2 or computing.height < facts.chips or counts.n_unique() > 1:
        return  # stretches of different lengths cannot be compared
    times = computing.sort("chip_ns", "rank", descending=[True, False])
    most, least = times.row(0, named=True), times.row(-1, named=True)
    uneven = times.height * most["chip_ns"] - int(times["chip_ns"].sum())
    mean = int(times["chip_ns"].sum()) // times.height
    rows = (
        Evidence(
            f"rank {most['rank']} computes {duration(most['chip_ns'])}, rank {least['rank']} "
            f"{duration(least['chip_ns'])}, the mean rank {duration(mean)}"
        ),
        Evidence(
            f"{duration(uneven)} of chip-time below the busiest rank, against "
            f"{duration(facts.of('communication_wait'))} of waiting in collectives (communication_wait)"
        ),
    )
    fixes = load_taxonomy().cause("communication_wait").fixes[1:]
    removable = min(uneven, facts.of("communication_wait"))
    title = "The work is unevenly spread over the ranks"
    where = f"rank {most['rank']}"
    yield Found("load_imbalance", "communication_wait", title, removable, where, rows, fixes)


def exposed(facts: Facts) -> Iterator[Found]:
    """Transfers with nothing computed beside them, by communicator."""
    times = _exposed_transfer(facts)
    for row in times.sort("length_ns", "name", "group", descending=[True, False, False]).iter_rows(
        named=True
    ):
        mine = [c for c in facts.communicators if (c.name, c.group) == (row["name"], row["group"])]
        whole = mine[0] if len(mine) == 1 else None  # process groups may share a name
        yield _unhidden(facts, row["name"], row["group"], row["length_ns"], whole)
    if facts.communication.is_empty():
        total = facts.of("communication")
        rows = (text.amount(facts, total, "transfers with nothing computed beside them"),)
        title = "Communication is not hidden behind computing"
        yield Found("exposed_communication", "communication", title, total, "", rows)


def _exposed_transfer(facts: Facts) -> pl.DataFrame:
    """The ledger's communication by communicator: name, group, length_ns.

    Where two of them transfer at once, both have the time.
    """
    moving = facts.communication.select("subject", "name", "group", "end_ns", start_ns="cut_ns")
    by = ["subject", "name", "group"]
    parts = facts.pieces("communication").select("subject", "start_ns", "end_ns")
    alone = intervals.clip(moving, parts, ["subject"])
    return intervals.total(alone, by).group_by("name", "group").agg(col("length_ns").sum())


def _unhidden(facts: Facts, name: str, group: str | None, ns: int, whole: Communicator | None) -> Found:
    where = f"{name} in group {group}" if group else name
    rows = [text.amount(facts, ns, "transfers with nothing computed beside them")]
    rows += _volume(whole) if whole else []
    rows += _longest_transfer(facts, name, group)
    fixes = next((fixes for pattern, fixes in OVERLAP.items() if re.search(f"(?i){pattern}", name)), ())
    usual = load_taxonomy().cause("communication").fixes
    title = f"{name} is not hidden behind computing"
    if whole and whole.time_ns:
        title = (
            f"{name}: {percent(whole.exposed_ns / whole.time_ns)} of its time is not hidden behind computing"
        )
    return Found(
        "exposed_communication", "communication", title, ns, where, tuple(rows), (*fixes, *usual[1:])
    )


def _volume(whole: Communicator) -> list[Evidence]:
    """What the communicator moves, and how fast."""
    hidden = f"{duration(whole.hidden_ns)} of {duration(whole.time_ns)} hidden, waiting included"
    said = f"{text.plural(whole.count, 'kernel')}, {hidden}"
    if whole.bytes is not None:
        said += f", {whole.bytes / 1e6:,.1f} MB"
    if whole.bus_gbps is not None:
        least = "at least " if whole.transfer_ns is None else ""
        said += f", {least}{whole.bus_gbps:,.1f} GB/s bus bandwidth"
    rows = [Evidence(f"{said} ({whole.scope})" if whole.scope != "unknown" else said)]
    return rows + ([Evidence(whole.reason)] if whole.reason else [])


def _longest_transfer(facts: Facts, name: str, group: str | None) -> list[Evidence]:
    """The record with the longest transfer."""
    mine = facts.communication.filter(
        (col("name") == name) & col("group").eq_missing(pl.lit(group, pl.String))
    )
    met = intervals.clip(mine.with_columns(at_ns="start_ns", to_ns="end_ns"), facts.windows, ["subject"])
    top = longest(met.with_columns(length_ns=col("to_ns") - col("cut_ns")))
    rows = top.join(facts.subjects, on="subject")
    return [
        Evidence(
            f"longest: {duration(row['length_ns'])}{facts.on(row['source'])}",
            facts.paths[row["source"]],
            row["kernel"],
            None,
            row["at_ns"],
            row["to_ns"] - row["at_ns"],
        )
        for row in rows.iter_rows(named=True)
    ]
