"""Which records are one collective, and who waited for whom. Times are milliseconds in the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import collectives
from tests.mpg_cli.datasets import op
from tests.mpg_cli.goodput.collectives.ranks import GATHER, MS, SEND_RECV, kinds, load, plain, reduce

if TYPE_CHECKING:
    from mpg_parsers.errors import Notice


def match(*ranks: list[Any], names: list[int | None] | None = None) -> tuple[list[Any], list[Notice]]:
    """(by, transfer, wait by rank) of each collective in ms, and the notices."""
    table, notices = collectives.match(load(*ranks, names=names))
    found = []
    for group in table.partition_by("index", maintain_order=True):
        waits = {rank: ns / MS for rank, ns in group.select("rank", "wait_ns").iter_rows()}
        found.append((group["matched_by"][0], group["transfer_ns"][0] / MS, waits))
    assert table["index"].unique(maintain_order=True).to_list() == list(range(len(found)))
    return found, notices


def found(*ranks: list[Any], names: list[int | None] | None = None) -> list[Any]:
    return match(*ranks, names=names)[0]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        pytest.param(
            [[reduce(10, 3, 1)], [reduce(12, 1, 1)]], [("sequence", 1, {0: 2, 1: 0})], id="last has wait 0"
        ),
        pytest.param(
            [[reduce(10, 2, 1)], [reduce(10, 2, 1)]],
            [("sequence", 2, {0: 0, 1: 0})],
            id="a tie: nobody waits",
        ),
        pytest.param(
            [[reduce(10, 3, 1), reduce(20, 1, 2)], [reduce(12, 1, 1), reduce(17, 4, 2)]],
            [("sequence", 1, {0: 2, 1: 0}), ("sequence", 1, {0: 0, 1: 3})],
            id="two collectives, each with its own last rank",
        ),
        pytest.param(
            [[reduce(20, 1, 2), reduce(10, 3, 1)], [reduce(12, 1, 1), reduce(17, 4, 2)]],
            [("sequence", 1, {0: 2, 1: 0}), ("sequence", 1, {0: 0, 1: 3})],
            id="the order of the records does not matter",
        ),
        pytest.param(
            [[plain(10, 3), plain(20, 1)], [plain(12, 1), plain(17, 4)]],
            [("order", 1, {0: 2, 1: 0}), ("order", 1, {0: 0, 1: 3})],
            id="by order where there are no arguments",
        ),
        pytest.param(
            [[reduce(10, 3)], [reduce(12, 1)]],
            [("order", 1, {0: 2, 1: 0})],
            id="arguments without sequence number",
        ),
        pytest.param(
            [[plain(10, 3), plain(20, 5, GATHER)], [plain(5, 5, GATHER), plain(12, 1)]],
            [("order", 1, {0: 2, 1: 0}), ("order", 5, {0: 0, 1: 0})],
            id="by order only within one name",
        ),
        pytest.param(
            [[reduce(10, 3, 1), reduce(11, 3, 1)], [reduce(12, 2, 1)]],
            [("sequence", 2, {0: 2, 1: 0})],
            id="several kernels of one collective: their hull",
        ),
        pytest.param(
            [
                [reduce(10, 3, 1, group="a"), reduce(20, 1, 1, group="b")],
                [reduce(12, 1, 1, group="a")],
                [reduce(19, 2, 1, group="b")],
            ],
            [("sequence", 1, {0: 2, 1: 0}), ("sequence", 1, {0: 0, 2: 1})],
            id="one sequence number in two groups",
        ),
        pytest.param(
            [
                [reduce(10, 3, 1, group_ranks="[0, 1]")],
                [reduce(12, 1, 1, group_ranks="[0, 1]")],
                [reduce(10, 9, 1, group_ranks="[2, 3]")],
                [reduce(12, 7, 1, group_ranks="[2, 3]")],
            ],
            [("sequence", 1, {0: 2, 1: 0}), ("sequence", 7, {2: 2, 3: 0})],
            id="two groups of one name are told apart by their ranks",
        ),
        pytest.param(
            [[reduce(10, 3, 1)], [reduce(12, 1, 1, collective="allgather")]], [], id="not one collective"
        ),
        pytest.param([[reduce(10, 3, 1)]], [], id="one rank only"),
        pytest.param([[reduce(10, 3, 1)], [op(0, 5)]], [], id="no other rank takes part"),
        pytest.param([[], []], [], id="no communication"),
        pytest.param([[reduce(10, 0, 1)], [reduce(12, 1, 1)]], [], id="a record without length says nothing"),
    ],
)
def test_match(ranks: list[Any], expected: list[Any]) -> None:
    assert found(*ranks) == expected


def test_ranks_that_are_not_known_take_no_part() -> None:
    records = [reduce(10, 3, 1)], [reduce(12, 1, 1)], [reduce(12, 2, 1)]
    assert found(*records, names=[None, None, None]) == []
    assert found(*records, names=[4, None, 2]) == [("sequence", 2, {2: 0, 4: 1})]


@pytest.mark.parametrize(
    "name_and_arguments",
    [
        {"name": SEND_RECV, "collective": None, "seq": None},
        {"name": SEND_RECV, "collective": "send", "seq": 1},
        {"name": SEND_RECV, "collective": "recv", "seq": 1},
        {"name": "ncclDevKernel_Broadcast_RING_LL", "collective": "broadcast", "seq": 1},
        {"name": "ncclDevKernel_Broadcast_RING_LL", "collective": None, "seq": None},
        {"name": "ncclDevKernel_Reduce_Sum_f32_RING_LL", "collective": None, "seq": None},
        {"name": "ncclDevKernel_Reduce_Sum_f32_RING_LL", "collective": "reduce", "seq": 1},
        {"name": SEND_RECV, "collective": "gather", "seq": 1},
        {"name": SEND_RECV, "collective": "scatter", "seq": 1},
    ],
)
def test_where_not_every_rank_waits_for_every_other_there_is_no_last_rank(name_and_arguments: Any) -> None:
    assert found([reduce(10, 3, **name_and_arguments)], [reduce(12, 1, **name_and_arguments)]) == []


@pytest.mark.parametrize(
    "name_and_arguments",
    [
        {"name": SEND_RECV, "collective": "all_to_allv", "seq": 1},
        {"name": "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "collective": "_reduce_scatter_base"},
        {"name": "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "collective": None, "seq": None},
        {"name": "ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "collective": None, "seq": None},
        {"name": "void vllm::cross_device_reduce_1stage<float, 2>(float*)", "collective": None, "seq": None},
    ],
)
def test_where_every_rank_waits_for_every_other_there_is(name_and_arguments: Any) -> None:
    ranks = [reduce(10, 3, **name_and_arguments)], [reduce(12, 1, **name_and_arguments)]
    assert [waits for _, _, waits in found(*ranks)] == [{0: 2, 1: 0}]


@pytest.mark.parametrize(
    ("ranks", "matched", "count", "words"),
    [
        pytest.param(
            [[reduce(10, 3, 1), reduce(20, 3, 2)], [reduce(12, 1, 1)]],
            1,
            1,
            "not recorded on exactly the ranks",
            id="cut off at the end of a profile",
        ),
        pytest.param(
            [[reduce(10, 3, 1), reduce(20, 3, 2)], [reduce(12, 1, 1), reduce(20, 3, 2)], [reduce(12, 1, 1)]],
            1,
            1,
            "not recorded on exactly the ranks",
            id="the rank whose record is missing may be the last",
        ),
        pytest.param(
            [[plain(10, 3), plain(20, 3)], [plain(12, 1)]],
            0,
            1,
            "a different number of times",
            id="by order only if all have as many",
        ),
        pytest.param(
            [[plain(t, 1) for t in (10, 20, 60)], [plain(t, 1) for t in (10, 50, 55)]],
            0,
            1,
            "at unrelated times",
            id="as many, but of two groups",
        ),
        pytest.param(
            [[reduce(10, 3, 1, group_size=1)], [reduce(12, 1, 1, group_size=1)]],
            0,
            1,
            "not recorded on exactly the ranks",
            id="more ranks than the group has: names coincide",
        ),
        pytest.param(
            [[reduce(10, 3, 1), reduce(10, 3, 1, device=1)], [reduce(12, 1, 1)], [reduce(12, 2, 1)]],
            0,
            1,
            "on several devices",
            id="a rank with two devices",
        ),
    ],
)
def test_no_answer_rather_than_a_guess(ranks: list[Any], matched: int, count: int, words: str) -> None:
    answers, notices = match(*ranks)
    assert len(answers) == matched
    (notice,) = [notice for notice in notices if notice.kind == "unmatched_events"]
    assert words in notice.message
    assert notice.count == count


def test_a_group_of_which_one_rank_is_known_is_no_caveat() -> None:
    answers, notices = match([reduce(10, 3, 1, group="a")], [reduce(12, 1, 1, group="b")])
    assert (answers, notices) == ([], [])


def test_the_clock_jitter_of_real_collectives_is_no_reason_to_refuse() -> None:
    ends = [[13, 33, 53.2, 73], [113.1, 133, 153, 173.4]]
    ranks = [[plain(end - 2, 2) for end in row] for row in ends]
    assert len(found(*ranks)) == 4


def test_index_follows_the_lowest_rank_that_took_part() -> None:
    ranks = (
        [reduce(50, 1, 5), reduce(10, 1, 9)],
        [reduce(50, 1, 5), reduce(10, 1, 9), reduce(1, 1, 2, group="b")],
        [reduce(1, 1, 2, group="b")],
    )
    table, _ = collectives.match(load(*ranks))
    rows = table.unique("index").sort("index").select("group", "seq").rows()
    assert rows == [("0", 9), ("0", 5), ("b", 2)]


@pytest.mark.parametrize(
    ("elements", "dtype", "expected"),
    [(1000, "BFloat16", 2000), (1000, "Float", 4000), (1000, "unheard-of", None), (None, "Float", None)],
)
def test_bytes(elements: int | None, dtype: str, expected: int | None) -> None:
    about = {"in_elements": elements, "element_type": dtype}
    table, _ = collectives.match(load([reduce(10, 3, 1, **about)], [reduce(12, 1, 1, **about)]))
    assert table["bytes"].to_list() == [expected, expected]


# ------------------------------------------------------------------------------------------------ clocks

durations = st.lists(st.tuples(*[st.integers(1, 50)] * 3), min_size=1, max_size=4)


@settings(max_examples=20, deadline=None)
@given(durations, st.tuples(*[st.integers(-(10**9), 10**9)] * 3))
def test_clocks_do_not_matter(rows: list[tuple[int, ...]], offsets: tuple[int, ...]) -> None:
    """Collective n ends at 100 (n + 1) everywhere; each rank's clock is off by its offset (ms)."""

    def ranks(clocks: tuple[int, ...]) -> list[list[Any]]:
        return [
            [reduce(100 * n + 100 - durs[r] + clocks[r], durs[r], n) for n, durs in enumerate(rows)]
            for r in range(3)
        ]

    expected = [
        ("sequence", min(durs), {rank: dur - min(durs) for rank, dur in enumerate(durs)}) for durs in rows
    ]
    answers, notices = match(*ranks(offsets))
    assert answers == found(*ranks((0, 0, 0))) == expected
    skewed = [rank for rank in (1, 2) if abs(offsets[rank] - offsets[0]) >= 1]
    assert kinds(notices) == ["clock_skew"] * len(skewed)
    for rank, notice in zip(skewed, notices, strict=True):
        off = offsets[rank] - offsets[0]
        word = "ahead of" if off > 0 else "behind"
        assert notice.message.startswith(f"rank {rank}'s clock is {abs(off):.3f} ms {word} rank 0's")


@pytest.mark.parametrize(("off", "told"), [(0.999999, False), (1.0, True), (-1.0, True), (-0.999999, False)])
def test_clock_skew_is_told_from_a_millisecond_on(off: float, told: bool) -> None:
    assert (kinds(match([reduce(10, 3, 1)], [reduce(10 + off, 3, 1)])[1]) == ["clock_skew"]) == told
