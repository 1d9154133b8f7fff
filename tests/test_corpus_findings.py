"""Findings on real traces: amounts that were computed independently, by hand or from the raw events."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from mpg_cli import findings
from mpg_cli.findings.facts import HOST
from mpg_cli.report.units import duration
from tests.mpg_cli.running import ROOT, analyze
from tests.real_traces import NO_CORPUS, REAL, analyze_real

if TYPE_CHECKING:
    from mpg_cli.findings.facts import Facts
    from mpg_cli.report.model import Finding, Price

DLRM = REAL / "param/dlrm_kineto"
V100 = "kineto_tb_plugin/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
corpus = pytest.mark.skipif(not DLRM.is_dir(), reason=NO_CORPUS)


@dataclass(frozen=True)
class Analysed:
    report: dict[str, Any]
    facts: Facts


@pytest.fixture(scope="module")
def dlrm() -> Analysed:
    """Eight ranks, with every finding, however small."""
    seen: list[Facts] = []
    find = findings.find

    def all_of_them(facts: Facts, price: Price | None) -> tuple[Finding, ...]:
        seen.append(facts)
        return find(facts, price, 0.0)

    with mock.patch.object(findings, "find", all_of_them):
        report = analyze(DLRM).report
    return Analysed(report, seen[0])


def straggler(report: dict[str, Any], rank: int) -> tuple[dict[str, Any], list[str]]:
    (found,) = (
        each for each in report["findings"] if (each["id"], each["where"]) == ("straggler", f"rank {rank}")
    )
    return found, [row["text"] for row in found["evidence"]]


# ----------------------------------------------------------------- from the raw events of the eight ranks, in us

Span = tuple[int, int]


def raw() -> list[tuple[list[Span], list[Span]]]:
    """By rank: its collectives in order, and its other kernels."""
    ranks = []
    for path in sorted(DLRM.iterdir(), key=lambda path: int(re.findall(r"worker(\d+)", path.name)[0])):
        events = json.loads(path.read_text())["traceEvents"]
        device = [e for e in events if e.get("cat") == "kernel"]  # waiting comes before copies in the ledger
        spans = sorted((e["ts"], e["ts"] + e["dur"], "nccl" in e["name"]) for e in device)
        ranks.append(([span[:2] for span in spans if span[2]], [span[:2] for span in spans if not span[2]]))
    return ranks


def exposed(since: int, until: int, busy: list[Span]) -> int:
    """How many of these microseconds are not in any of the spans."""
    left = set(range(since, until))
    for start, end in busy:
        left -= set(range(max(start, since), min(end, until)))
    return len(left)


def by_hand(last: int, numbers: tuple[int, ...]) -> tuple[int, int]:
    """What the others wait, exposed, for this rank in these collectives, and what of it after the next-to-last came."""
    ranks, waited, saved = raw(), 0, 0
    for number in numbers:
        lengths = [spans[number][1] - spans[number][0] for spans, _ in ranks]
        shortest, second = sorted(lengths)[:2]
        assert lengths[last] == shortest
        for rank, (spans, busy) in enumerate(ranks):
            cut = spans[number][1] - shortest
            if rank != last:
                waited += exposed(spans[number][0], cut, busy)
                saved += exposed(cut - (second - shortest), cut, busy)
    return waited, saved


@corpus
def test_rank_7_of_dlrm(dlrm: Analysed) -> None:
    """Margins of 509, 162 and 124 us: 795 on each of eight ranks are 6.360 ms, of which 57 us are not exposed."""
    waited, saved = by_hand(7, (1, 2, 3))
    assert (waited, saved) == (8206, 7 * 795 - 57)
    found, texts = straggler(dlrm.report, 7)
    assert found["chip_ns"] == (saved + 509 + 162 + 124) * 1000
    assert found["gain"] == pytest.approx(1.052, abs=0.0005)
    assert found["title"] == "Rank 7 keeps the others waiting: its host is late"
    assert texts[:2] == [
        (
            "last in 3 of the 5 collectives with a clear order (8 in all): the others waited 8.206 ms of chip-time "
            "there (communication_wait in the ledger)"
        ),
        (
            "the rank before it comes 124.0 µs to 509.0 µs earlier: fixing it alone saves the others at most 5.508 ms "
            "of that, and itself 795.0 µs of its lateness (no more than that margin, nor than the ledger has)"
        ),
    ]


@corpus
def test_rank_5_of_dlrm(dlrm: Analysed) -> None:
    """Margins of 51 and 50 us: 101 on each of eight ranks are 808 us, of which 96 are not exposed."""
    waited, saved = by_hand(5, (5, 6))
    assert (waited, saved) == (5056, 7 * 101 - 96)
    found, texts = straggler(dlrm.report, 5)
    assert found["chip_ns"] == (saved + 51 + 50) * 1000
    assert found["gain"] == pytest.approx(1.006, abs=0.0005)
    assert found["share"] < findings.THRESHOLD
    assert texts[1:4] == [
        (
            "the rank before it comes 50.00 µs to 51.00 µs earlier: fixing it alone saves the others at most 611.0 µs "
            "of that, and itself 101.0 µs of its lateness (no more than that margin, nor than the ledger has)"
        ),
        "what it spent more time on than the median of the others: host in 2 (958.0 µs)",
        "longest wait: 581.0 µs (477.0 µs of it exposed) on rank 0 in collective 6 in ProfilerStep#10",
    ]


@corpus
def test_waits_that_no_rank_alone_could_end(dlrm: Analysed) -> None:
    (rest,) = (each for each in dlrm.report["findings"] if each["id"] == "communication_wait")
    ledger = {row["cause"]: row["chip_ns"] for row in dlrm.report["ledger"]}
    assert (
        rest["chip_ns"]
        == ledger["communication_wait"] - (by_hand(7, (1, 2, 3))[1] + by_hand(5, (5, 6))[1]) * 1000
    )


@corpus
def test_hotspots_of_the_ranks_sum_to_those_of_all(dlrm: Analysed) -> None:
    by_rank = [
        {(each.cause, each.name, each.frame): each for each in dlrm.facts.rank_hotspots(r)} for r in range(8)
    ]
    largest = dlrm.facts.hotspots[:10]
    assert len(largest) == 10
    for spot in largest:
        own = [spots[key] for spots in by_rank if (key := (spot.cause, spot.name, spot.frame)) in spots]
        assert sum(each.chip_ns for each in own) == spot.chip_ns
        assert sum(each.count for each in own) == spot.count
        assert spot.rank in {each.rank for each in own}
    assert all(each.rank == rank for rank, spots in enumerate(by_rank) for each in spots.values())


@corpus
def test_host_of_a_late_rank_is_its_own(dlrm: Analysed) -> None:
    own = [each for each in dlrm.facts.rank_hotspots(7) if each.cause in HOST]
    most = max(own, key=lambda each: each.chip_ns)
    text = straggler(dlrm.report, 7)[1][-1]
    assert text == f"{most.name}: {duration(most.chip_ns)} in {most.count} pieces of idle time on rank 7"
    assert most.chip_ns <= dlrm.facts.of_rank(7, *HOST)


@corpus
def test_operators_without_a_roofline_on_a_v100() -> None:
    """182.878 of 317.331 ms: normalisation and element-wise work, whose bandwidth ceiling is not known."""
    report = analyze_real(V100).report
    (found,) = (each for each in report["findings"] if each["id"] == "kernel_inefficiency")
    assert found["chip_ns"] == 317_330_792
    assert found["evidence"][1]["text"] == (
        "at least 182.9 ms of kernel time in it has no known roofline: all of it counts"
    )
    named = [row["name"] for row in found["evidence"][2:]]
    judged = {op["op"] for op in report["ops"] if op["efficiency"] is not None}
    assert found["where"] == named[0]
    assert len(named) == 3
    assert set(named) <= judged


def test_a_rank_is_late_for_what_took_it_longest() -> None:
    """Rank 0 of the fixture copies for 4.474 ms longer before one collective, and computes for 3.009 before another."""
    found, texts = straggler(analyze(ROOT / "fixtures/train_2rank").report, 0)
    assert found["title"] == "Rank 0 keeps the others waiting: it copies memory longer"
    assert texts[2].endswith("compute in 1 (3.009 ms), copy in 1 (4.474 ms)")
