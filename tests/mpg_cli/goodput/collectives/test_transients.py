"""First collectives in which ranks wait because they entered the profile apart. Times are ms in the tables."""

from __future__ import annotations

import pytest

from mpg_cli.goodput import collectives
from mpg_cli.goodput.collectives.transients import transient_indexes
from tests.mpg_cli.goodput.collectives.ranks import kinds, load, plain, reduce


@pytest.mark.parametrize(
    ("durations_ms", "told"),
    [
        pytest.param([50, 1, 1, 1], True, id="the ranks came in apart"),
        pytest.param([9.9, 1, 1], False, id="under ten times"),
        pytest.param([10, 1, 1], True, id="ten times"),
        pytest.param([50, 1], False, id="one other is no rule"),
        pytest.param([0.9, 0.01, 0.01], False, id="under a millisecond"),
        pytest.param([1, 50, 1, 1], False, id="not the first: a straggler"),
        pytest.param([50, 1, 1, 40, 1, 1], False, id="it recurs: a larger message"),
        pytest.param([50], False, id="alone"),
    ],
)
def test_start_transient(durations_ms: list[float], told: bool) -> None:
    records = [plain(100 * n, dur) for n, dur in enumerate(durations_ms)]
    notices = collectives.transient_notices(load(records, names=[None]))
    assert kinds(notices) == ["start_transient"] * told
    assert all(notice.source == "0.json" for notice in notices)


def test_a_message_of_another_size_is_no_transient() -> None:
    records = [reduce(0, 50, in_elements=10**9), reduce(100, 1, in_elements=5), reduce(200, 1, in_elements=5)]
    assert collectives.transient_notices(load(records)) == []


def test_sizes_from_shapes_do_not_tell_records_apart() -> None:
    records = [plain(100 * n, dur, in_elements=n) for n, dur in enumerate([50, 1, 1])]
    assert kinds(collectives.transient_notices(load(records))) == ["start_transient"]


def test_a_transient_is_told_for_each_device_that_has_it() -> None:
    records = [plain(0, 50), plain(100, 1), plain(200, 1)]
    on_one = [record | {"device": 1} for record in records]
    assert len(collectives.transient_notices(load(records + on_one, records))) == 3


@pytest.mark.parametrize(
    ("waits_ms", "found"),
    [
        pytest.param([50, 1, 1], [0], id="the ranks came in apart"),
        pytest.param([50, 0, 0], [0], id="nobody waits afterwards"),
        pytest.param([9.9, 1, 1], [], id="under ten times the usual"),
        pytest.param([10, 1, 1], [0], id="ten times"),
        pytest.param([50, 1], [], id="one other is no rule"),
        pytest.param([1, 0.01, 0.01], [], id="a millisecond is no start-up"),
        pytest.param([1, 50, 1, 1], [], id="not the first: a straggler"),
        pytest.param([50, 1, 25, 1, 1], [], id="it recurs"),
        pytest.param([50, 1, 24, 1, 1], [0], id="more than twice any other"),
        pytest.param([50], [], id="alone"),
    ],
)
def test_first_waits(waits_ms: list[float], found: list[int]) -> None:
    """Rank 1 is last everywhere, and its transfers differ: only the waits of rank 0 count."""
    starts = range(0, 1000, 100)
    early = [reduce(at, wait + 1 + n, n) for n, (at, wait) in enumerate(zip(starts, waits_ms, strict=False))]
    late = [reduce(at, 1 + n, n) for n, (at, _) in enumerate(zip(starts, waits_ms, strict=False))]
    matched, _ = collectives.match(load(early, late))
    assert transient_indexes(matched) == found


def test_ranks_that_met_before_did_not_enter_apart() -> None:
    """Ranks 0 and 1 meet in group a before all three do in group b."""
    pair = [reduce(0, 1, 0, group="a")]
    trio = [
        [reduce(at, wait + 1, n, group="b") for n, (at, wait) in enumerate([(100, 50), (200, 0), (300, 0)])]
    ] * 2
    last = [reduce(at, 1, n, group="b") for n, at in enumerate([150, 200, 300])]
    assert transient_indexes(collectives.match(load(*trio, last))[0]) == [0]
    assert transient_indexes(collectives.match(load(pair + trio[0], pair + trio[1], last))[0]) == []
