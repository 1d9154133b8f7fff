"""Eight ranks of one job, one rank of two, and the generated ranks, against figures found by hand."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pytest

from mpg_cli.goodput import activity, collectives, runtime
from mpg_cli.goodput.collectives.groups import described_records, lower_bounds
from mpg_cli.goodput.windows import find_steps, find_windows
from mpg_cli.ingest import IngestOptions, ingest
from mpg_cli.sources import load_sources
from tests.mpg_cli.goodput.collectives.ranks import RULES, segments_of
from tests.mpg_cli.running import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = ROOT.parent / "shared/corpus/pytorch"
DLRM, ONE_OF_TWO = CORPUS / "param/dlrm_kineto", CORPUS / "hta/nccl_parser_config"
TRAIN = ROOT / "fixtures/train_2rank"


class Found(NamedTuple):
    matched: pl.DataFrame
    summary: pl.DataFrame
    communicators: pl.DataFrame
    bounds: pl.DataFrame
    segments: pl.DataFrame
    kinds: list[str]


@cache
def found(path: Path) -> Found:
    """All idle time under host_code."""
    if not path.exists():
        pytest.skip(f"the corpus of real traces is not at {CORPUS}")
    with ingest([str(path)], IngestOptions()) as dataset:
        loaded = activity.load(dataset, load_sources(dataset)[0], RULES)
        named = collectives.with_callers(loaded, dataset)
        matched, notices = collectives.match(named)
        notices += collectives.transient_notices(named)
        busy = runtime.busy_intervals(named.ops)
        windows = find_windows(named, find_steps(dataset, None), "steps")
        spans = named.subjects.select("subject", "source").join(windows.by_source, on="source")
        segments = segments_of(named, matched, spans, "host_code")
        summary = collectives.summarise(named, matched, busy, windows, segments)
        groups = collectives.communicators(named, matched, summary, busy, spans)
        bounds = lower_bounds(described_records(named, matched))
    return Found(matched, summary, groups, bounds, segments, [notice.kind for notice in notices])


def column(name: str) -> list[object]:
    return found(DLRM).summary[name].to_list()


def test_dlrm_all_eight_collectives_are_matched_by_order() -> None:
    assert found(DLRM).kinds == ["start_transient"] * 4  # ranks 1, 3, 4, 5
    assert column("last_rank") == [7, 7, 7, 7, 7, 5, 5, 4]
    assert column("transfer_ns") == [us * 1000 for us in (10, 8, 7, 7, 86, 10, 20, 69)]
    assert column("margin_ns") == [us * 1000 for us in (504, 509, 162, 124, 9, 51, 50, 10)]
    assert column("near_tie") == [False, False, False, False, True, False, False, True]
    assert set(column("matched_by")) == {"order"}
    kernel = "ncclKernel_AllReduce_RING_LL_Sum_float"
    assert column("name") == [*["all_to_all"] * 4, kernel, "all_to_all", kernel, kernel]


def test_dlrm_waits_by_rank() -> None:
    waits = found(DLRM).matched.group_by("rank").agg(pl.col("wait_ns").sum()).sort("rank")["wait_ns"]
    assert waits.to_list() == [us * 1000 for us in (5581, 11119, 3275, 9557, 6370, 6034, 3341, 1529)]


def test_dlrm_bytes_are_those_of_even_all_to_alls() -> None:
    """6144 floats, 24 longs, 384 ints; the fourth is uneven (3392 ints in, 768 to 13312 out)."""
    assert column("bytes") == [24576, 192, 1536, None, None, 24576, None, None]
    assert column("algo_gbps")[0] == pytest.approx(2.4576)
    assert column("bus_gbps")[0] == pytest.approx(2.4576 * 7 / 8)


def test_dlrm_only_the_first_is_a_start_transient() -> None:
    assert column("transient") == [True] + [False] * 7


def test_dlrm_the_host_made_the_last_rank_late_and_the_first_is_unknown() -> None:
    assert column("reason") == ["unknown"] + ["host"] * 7


def test_one_rank_of_two_lower_bounds() -> None:
    loaded = found(ONE_OF_TWO)
    assert loaded.summary.is_empty()
    reduce, broadcast = loaded.communicators.to_dicts()
    assert (reduce["name"], reduce["count"], reduce["transfer_ns"]) == ("allreduce", 15, None)
    assert reduce["bus_gbps"] == pytest.approx(12.99, abs=0.005)
    assert (broadcast["name"], broadcast["count"]) == ("broadcast", 6)


def test_one_rank_of_two_lower_bounds_by_size() -> None:
    """All-reduces of 31.5 and 26.3 MB: the shortest of three took 2.424 and 2.367 ms; the factor of two ranks is 1."""
    bounds = found(ONE_OF_TWO).bounds.filter(pl.col("bytes").is_in([31_502_336, 26_255_360]))
    rows = bounds.sort("bytes", descending=True).select("bytes", "count", "bus_gbps").rows()
    assert rows == [
        (31_502_336, 3, pytest.approx(12.99, abs=0.005)),
        (26_255_360, 3, pytest.approx(11.09, abs=0.005)),
    ]


def test_one_rank_of_two_exposed_is_that_of_the_ledger() -> None:
    segments = found(ONE_OF_TWO).segments.filter(pl.col("cause") == "communication")
    exposed = segments.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    assert sum(found(ONE_OF_TWO).communicators["exposed_ns"]) == exposed


@pytest.mark.parametrize("rank", [0, 1])
def test_generated_ranks_split_as_planted(rank: int) -> None:
    truth = json.loads((TRAIN / "truth.json").read_text())["ranks"][rank]["communication_split"]
    segments = found(TRAIN).segments.filter(pl.col("subject") == rank)
    sums = segments.group_by("cause").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    assert {cause: ns for cause, ns in sums.rows() if cause in truth} == truth
