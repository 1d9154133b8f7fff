from collections import Counter
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import intervals, ledger
from tests.mpg_cli.goodput import oracles
from tests.mpg_cli.goodput.oracles import amounts, frame

CAPACITY = {"subject": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "chips": pl.Int64}
CLAIM = {**CAPACITY, "cause": pl.String, "evidence": pl.Int64}
ORDER = ("a", "b", "c")


def resolve(capacity, claims, order=ORDER, rest="idle", **options):
    return ledger.resolve(frame(capacity, CAPACITY), frame(claims, CLAIM), order, rest, **options)


# ------------------------------------------------------------------------------------------------ resolve


@pytest.mark.parametrize(
    ("capacity", "claims", "rows"),
    [
        pytest.param([(0, 0, 10, 1)], [], {(0, "idle"): 10}, id="nothing claimed"),
        pytest.param(
            [(0, 0, 10, 1)],
            [(0, 2, 6, 1, "a", 1), (0, 4, 9, 1, "b", 2)],
            {(0, "a"): 4, (0, "b"): 3, (0, "idle"): 3},
            id="priority",
        ),
        pytest.param(
            [(0, 0, 10, 1)],
            [(0, -5, 2, 1, "a", 1), (0, 8, 99, 1, "b", 2), (1, 0, 5, 1, "a", 3)],
            {(0, "a"): 2, (0, "b"): 2, (0, "idle"): 6},
            id="claims count within capacity only",
        ),
        pytest.param(
            [(0, 0, 10, 8)],
            [(0, 0, 10, 3, "a", 1), (0, 0, 5, 7, "b", 2), (0, 0, 10, 1, "c", 3)],
            {(0, "a"): 30, (0, "b"): 25, (0, "c"): 5, (0, "idle"): 20},
            id="what is left goes down the order",
        ),
        pytest.param(
            [(0, 0, 4, 1), (0, 4, 6, 2), (0, 8, 9, 1)],
            [(0, 1, 9, 1, "a", 1)],
            {(0, "a"): 6, (0, "idle"): 3},
            id="capacity that changes and has a gap",
        ),
        pytest.param(
            [(0, 0, 10, 1), (1, 5, 10, 1)],
            [(0, 0, 10, 1, "b", 1), (1, 0, 6, 1, "a", 2)],
            {(0, "b"): 10, (1, "a"): 1, (1, "idle"): 4},
            id="subjects do not mix",
        ),
        pytest.param(
            [(0, 0, 10, 1)], [(0, 3, 3, 1, "a", 1), (0, 5, 4, 1, "a", 1), (0, 0, 9, 0, "a", 1)],
            {(0, "idle"): 10}, id="empty claims",
        ),
        pytest.param(
            [(0, 0, 5, 1), (1, 5, 9, 1)], [], {(0, "idle"): 5, (1, "idle"): 4}, id="one begins as one ends"
        ),
    ],
)  # fmt: skip
def test_resolve_of_hand_made_cases(capacity, claims, rows):
    result = resolve(capacity, claims)
    assert amounts(result.rows) == rows
    assert result.faults.is_empty()
    assert result.segments is None
    assert result.rows.schema == ledger.ROW_SCHEMA
    assert set(result.rows["origin"]) <= {"observed"}


def test_the_rest_may_be_claimed_too():
    result = resolve(
        [(0, 0, 10, 1)], [(0, 2, 5, 1, "unknown", 7)], ["a", "unknown"], "unknown", segments=True
    )
    assert result.rows.rows() == [(0, "unknown", 10, "observed", None)]
    assert [segment[1:] for segment in result.segments.rows()] == [
        (0, 2, "unknown", 1, None), (2, 5, "unknown", 1, 7), (5, 10, "unknown", 1, None),
    ]  # fmt: skip


def test_claiming_more_than_there_is_is_a_fault_not_a_negative_row():
    capacity = [(0, 0, 10, 2), (1, 0, 10, 4)]
    claims = [(0, 0, 6, 1, "a", 1), (0, 4, 8, 2, "a", 2), (0, 0, 10, 2, "b", 3), (1, 0, 10, 3, "a", 4)]
    result = resolve(capacity, claims)
    assert result.faults.rows(named=True) == [
        {"subject": 0, "cause": "a", "start_ns": 4, "end_ns": 6, "chips_claimed": 3, "chips_there": 2}
    ]
    assert amounts(result.rows) == {(0, "a"): 12, (0, "b"): 8, (1, "a"): 30, (1, "idle"): 10}


@pytest.mark.parametrize(
    ("capacity", "claims", "order", "message"),
    [
        ([], [(0, 0, 1, 1, "x", None)], ORDER, "without a place in the order: x"),
        ([], [(0, 0, 1, 1, None, None)], ORDER, "without a place in the order: None"),
        ([], [], ("a", "b", "a"), "named twice"),
        ([(0, 0, 1, -1)], [], ORDER, "at least 0"),
        ([], [(0, 0, 1, None, "a", None)], ORDER, "at least 0"),
        ([(0, 0, 2**40, 2**23)], [], ORDER, "exceeds"),
        ([(0, -(2**62), 2**62, 1)], [], ORDER, "exceeds"),
        ([], [(0, 0, 1, 2**62, "a", None)] * 2, ORDER, "add up to more"),
    ],
)
def test_resolve_refuses_what_has_no_answer(capacity, claims, order, message):
    with pytest.raises(ValueError, match=message):
        resolve(capacity, claims, order)


def test_a_fleet_larger_than_int64_closes():
    # 4 subjects of 2^62 chip-ns each: the total needs 65 bits.
    rows = resolve([(subject, 0, 2**50, 2**12) for subject in range(4)], []).rows
    assert rows["chip_ns"].to_list() == [2**62] * 4


@pytest.mark.parametrize(
    ("capacity", "claims"), [([], []), ([], [(0, 0, 5, 1, "a", 1)]), ([(0, 5, 5, 1)], [])]
)
def test_no_capacity_no_rows(capacity, claims):
    result = resolve(capacity, claims, segments=True)
    assert result.rows.is_empty()
    assert result.segments.is_empty()
    assert result.faults.is_empty()


CHIPS = st.integers(0, 4)
ONE_CHIP = st.just(1)


@st.composite
def capacities(draw, chips):
    """One or two subjects, each with disjoint intervals that may touch and may have no chips."""
    rows = []
    for subject in range(draw(st.integers(1, 2))):
        points = sorted(draw(st.sets(st.integers(0, 20), max_size=4)))
        rows += [(subject, *span, draw(chips)) for span in pairwise(points)]
    return rows


@st.composite
def claim_lists(draw, chips):
    """Claims of three causes on up to three subjects, many of which overlap; some are empty."""
    claims = []
    for _ in range(draw(st.integers(0, 8))):
        start = draw(st.integers(-2, 20))
        end = start + draw(st.integers(-1, 12))
        evidence = draw(st.none() | st.integers(0, 9))
        claims.append(
            (draw(st.integers(0, 2)), start, end, draw(chips), draw(st.sampled_from(ORDER)), evidence)
        )
    return claims


@settings(deadline=None, max_examples=60)
@given(capacities(CHIPS), claim_lists(CHIPS), st.permutations(ORDER))
def test_resolve_is_its_definition(capacity, claims, order):
    result = resolve(capacity, claims, order)
    assert amounts(result.rows) == oracles.resolve(capacity, claims, order, "idle")
    assert sum(result.rows["chip_ns"]) == sum((end - start) * chips for _, start, end, chips in capacity)
    faults = {
        (subject, cause, t): (claimed, there)
        for subject, cause, start, end, claimed, there in result.faults.rows()
        for t in range(start, end)
    }
    assert faults == oracles.oversubscribed(capacity, claims, order)


@settings(deadline=None, max_examples=60)
@given(capacities(CHIPS), claim_lists(CHIPS), st.randoms(use_true_random=False), st.integers(-(2**60), 2**60))
def test_neither_the_order_of_rows_nor_the_origin_of_time_matters(capacity, claims, random, shift):
    def moved(rows):
        result = [(row[0], row[1] + shift, row[2] + shift, *row[3:]) for row in rows]
        random.shuffle(result)
        return result

    before = resolve(capacity, claims, segments=True)
    after = resolve(moved(capacity), moved(claims), segments=True)
    back = pl.col("start_ns", "end_ns") - shift
    assert after.rows.equals(before.rows)
    assert after.faults.with_columns(back).equals(before.faults)
    assert after.segments.with_columns(back).equals(before.segments)


@settings(deadline=None, max_examples=60)
@given(capacities(CHIPS), claim_lists(CHIPS), st.data())
def test_cutting_a_claim_in_two_changes_no_row(capacity, claims, data):
    halves = []
    for subject, start, end, *what in claims:
        at = data.draw(st.integers(start, max(start, end)))
        halves += [(subject, start, at, *what), (subject, at, end, *what)]
    assert resolve(capacity, halves).rows.equals(resolve(capacity, claims).rows)


@settings(deadline=None, max_examples=60)
@given(capacities(ONE_CHIP), claim_lists(ONE_CHIP))
def test_one_chip_is_nested_unions(capacity, claims):
    """chip_ns of the k-th cause = length of the union of the first k - length of that of the first k - 1."""
    inside = intervals.clip(frame(claims, CLAIM), frame(capacity, CAPACITY), ["subject"])
    nested, before = {}, {}
    for k in range(1, len(ORDER) + 1):
        lengths = dict(intervals.total(inside.filter(pl.col.cause.is_in(ORDER[:k])), ["subject"]).rows())
        nested |= {(subject, ORDER[k - 1]): n - before.get(subject, 0) for subject, n in lengths.items()}
        before = lengths
    rows = amounts(resolve(capacity, ledger.union_claims(frame(claims, CLAIM)).rows()).rows)
    assert {key: n for key, n in rows.items() if key[1] != "idle"} == {k: n for k, n in nested.items() if n}


# ------------------------------------------------------------------------------------- segments, union_claims


@pytest.mark.parametrize("union", [False, True])
def test_segments_name_a_claim_that_is_live_throughout(union):
    claims = [(0, 1, 9, 1, "b", 10), (0, 3, 5, 1, "a", 20), (0, 4, 7, 1, "b", 30), (0, 8, 12, 1, "b", 40)]
    if union:
        claims = ledger.union_claims(frame(claims, CLAIM), merge=False).rows()
    assert resolve([(0, 0, 15, 1)], claims, segments=True).segments.rows() == [
        (0, 0, 1, "idle", 1, None),
        (0, 1, 3, "b", 1, 10),
        (0, 3, 5, "a", 1, 20),
        (0, 5, 9 if union else 8, "b", 1, 10),  # 30 lies within 10
        (0, 9 if union else 8, 12, "b", 1, 40),  # of those that began by then, 40 ends last
        (0, 12, 15, "idle", 1, None),
    ]


def test_of_equal_claims_the_one_with_the_lowest_id_is_evidence():
    claims = [(0, 0, 5, 1, "a", None), (0, 0, 5, 1, "a", 9), (0, 0, 5, 1, "a", 8)]
    assert resolve([(0, 0, 5, 3)], claims, segments=True).segments.rows() == [(0, 0, 5, "a", 3, 8)]


@settings(deadline=None, max_examples=60)
@given(capacities(CHIPS), claim_lists(CHIPS))
def test_segments_sum_to_the_rows_and_have_true_evidence(capacity, claims):
    claims = [(*claim[:5], number) for number, claim in enumerate(claims)]
    result = resolve(capacity, claims, segments=True)
    assert result.rows.equals(resolve(capacity, claims).rows)
    sums = Counter()
    for subject, start, end, cause, chips, evidence in result.segments.rows():
        assert start < end
        assert chips > 0
        sums[subject, cause] += (end - start) * chips
        if cause == "idle":
            assert evidence is None
        else:
            claim = claims[evidence]
            assert (claim[0], claim[4]) == (subject, cause)
            assert claim[1] <= start
            assert end <= claim[2]
    assert dict(sums) == amounts(result.rows)


@settings(deadline=None, max_examples=60)
@given(capacities(CHIPS), claim_lists(CHIPS))
def test_segments_are_as_long_as_they_can_be(capacity, claims):
    seen = {}
    for subject, start, end, *what in resolve(capacity, claims, segments=True).segments.rows():
        assert seen.get((subject, *what)) != start, "two equal segments touch"
        seen[subject, *what] = end


def test_union_claims_of_concurrent_kernels():
    claims = [
        (0, 4, 6, 1, "a", 3), (0, 0, 5, 1, "a", 1), (0, 0, 2, 1, "a", 2), (0, 6, 7, 1, "a", None),
        (0, 9, 10, 1, "a", 5), (0, 1, 3, 1, "b", 6), (1, 1, 3, 1, "a", 7), (1, 2, 4, 2, "a", 8),
    ]  # fmt: skip
    merged = ledger.union_claims(frame(claims, CLAIM))
    assert merged.rows() == [
        (0, 0, 7, 1, "a", 1), (0, 9, 10, 1, "a", 5), (0, 1, 3, 1, "b", 6),
        (1, 1, 3, 1, "a", 7), (1, 2, 4, 2, "a", 8),
    ]  # fmt: skip
    fine = ledger.union_claims(frame(claims, CLAIM), merge=False)
    assert fine.rows()[:4] == [
        (0, 0, 5, 1, "a", 1), (0, 5, 6, 1, "a", 3), (0, 6, 7, 1, "a", None), (0, 9, 10, 1, "a", 5),
    ]  # fmt: skip


@settings(deadline=None)
@given(claim_lists(CHIPS), st.booleans())
def test_union_claims_is_disjoint_and_covers_the_same(claims, merge):
    claims = [(*claim[:5], number) for number, claim in enumerate(claims)]
    result = ledger.union_claims(frame(claims, CLAIM), merge=merge).rows()

    def keyed(rows):
        return [((row[0], row[3], row[4]), row[1], row[2]) for row in rows]

    covered = {key: times for key, times in oracles.moments(keyed(claims)).items() if times}
    assert oracles.moments(keyed(result)) == covered
    assert sum(end - start for _, start, end in keyed(result)) == sum(map(len, covered.values()))
    for key, start, end, evidence in ((*k, row[5]) for k, row in zip(keyed(result), result, strict=True)):
        [(same_key, first, last)] = keyed([claims[evidence]])
        assert (same_key, first if merge else max(first, start)) == (key, start)
        assert merge or end <= last
