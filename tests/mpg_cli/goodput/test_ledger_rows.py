from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import ledger
from mpg_cli.goodput.taxonomy import load_taxonomy
from tests.mpg_cli.goodput import oracles
from tests.mpg_cli.goodput.oracles import amounts, frame

ROW = ledger.ROW_SCHEMA
TAXONOMY = load_taxonomy()

# ------------------------------------------------------------------------------------------------- split


LEDGER = frame(
    [
        (0, "productive", 10, "observed", 5),
        (0, "input", 7, "observed", None),
        (1, "productive", 1, "extrapolated", None),
        (2, "productive", 4, "observed", None),
    ],
    ROW,
)


def parts(weights, **columns):
    return pl.DataFrame({"cause": list(weights), "weight": list(weights.values()), **columns})


def test_split_gives_what_rounding_leaves_to_the_largest_remainders():
    rows = ledger.split(LEDGER, "productive", parts({"ideal": 1, "memory_bound": 4, "recompute": 2}))
    assert rows.rows() == [
        (0, "input", 7, "observed", None),
        (0, "ideal", 1, "inferred", 5),  # 10/7 = 1 + 3/7
        (0, "memory_bound", 6, "inferred", 5),  # 40/7 = 5 + 5/7
        (0, "recompute", 3, "inferred", 5),  # 20/7 = 2 + 6/7
        (1, "memory_bound", 1, "extrapolated", None),
        (2, "ideal", 1, "inferred", None),  # 4/7: two units left, remainders 4/7, 2/7, 1/7
        (2, "memory_bound", 2, "inferred", None),
        (2, "recompute", 1, "inferred", None),
    ]


def test_ties_go_to_the_earlier_part():
    rows = frame([(0, "productive", 2, "observed", None)], ROW)
    halves = ledger.split(rows, "productive", parts({"recompute": 1, "ideal": 1, "memory_bound": 1}))
    assert amounts(halves) == {(0, "recompute"): 1, (0, "ideal"): 1}


def test_parts_per_subject_leave_the_others_alone():
    of_two = parts({"ideal": 1, "memory_bound": 0}, subject=[0, 1])
    rows = ledger.split(LEDGER, "productive", of_two, origin="extrapolated")
    assert rows.rows() == [
        (0, "input", 7, "observed", None),
        (1, "productive", 1, "extrapolated", None),  # only a weight of zero
        (2, "productive", 4, "observed", None),  # no parts
        (0, "ideal", 10, "extrapolated", 5),
    ]


@pytest.mark.parametrize("weights", [{}, {"ideal": 0}])
def test_without_weight_the_leaf_stays(weights):
    schema = {"cause": pl.String, "weight": pl.Int64}
    rows = ledger.split(LEDGER, "productive", parts(weights).cast(schema))
    assert amounts(rows) == amounts(LEDGER)


def test_split_does_not_overflow():
    rows = frame([(0, "productive", 2**63 - 1, "observed", None)], ROW)
    result = ledger.split(rows, "productive", parts({"ideal": 2**63 - 1, "recompute": 2**63 - 2}))
    assert amounts(result) == {(0, "ideal"): 2**62, (0, "recompute"): 2**62 - 1}


@pytest.mark.parametrize(
    ("weights", "origin", "message"),
    [
        ({"ideal": -1}, "inferred", "weights"),
        ({"ideal": None}, "inferred", "weights"),
        ({}, "guessed", "origin"),
    ],
)
def test_split_refuses_bad_input(weights, origin, message):
    with pytest.raises(ValueError, match=message):
        ledger.split(LEDGER, "productive", parts(weights).cast({"weight": pl.Int64}), origin=origin)


BIG = st.integers(0, 2**63 - 1)


@settings(deadline=None)
@given(st.lists(BIG, max_size=4), st.lists(BIG, min_size=1, max_size=5))
def test_split_is_the_largest_remainder_method(chip_ns, weights):
    rows = frame([(i, "productive", n, "observed", None) for i, n in enumerate(chip_ns)], ROW)
    named = {f"part{i}": weight for i, weight in enumerate(weights)}
    expected = {
        (subject, name): share
        for subject, n in enumerate(chip_ns)
        for name, share in (
            zip(named, oracles.apportion(n, weights), strict=True) if any(weights) else [("productive", n)]
        )
    }
    result = ledger.split(rows, "productive", parts(named))
    assert amounts(result) == {key: n for key, n in expected.items() if n or key[1] == "productive"}
    assert sum(result["chip_ns"]) == sum(chip_ns)


# ------------------------------------------------------------------------------------------------- refine


def test_refine_puts_a_ledger_under_a_leaf():
    parent = frame(
        [
            (0, "unobserved", 60, "observed", None),
            (0, "unobserved", 40, "inferred", None),
            (0, "no_demand", 5, "observed", None),
            (1, "unobserved", 50, "observed", None),
            (2, "unobserved", 7, "observed", None),
            (4, "unobserved", 2, "observed", None),
        ],
        ROW,
    )
    child = frame(
        [
            (0, "input", 30, "observed", 9),
            (0, "productive", 50, "observed", None),
            (1, "productive", 51, "observed", None),
            (3, "productive", 1, "observed", None),
            (4, "hang", 2, "extrapolated", None),
        ],
        ROW,
    )
    result = ledger.refine(parent, "unobserved", child)
    assert sorted(result.rows.rows(), key=str) == [
        (0, "input", 30, "observed", 9),
        (0, "no_demand", 5, "observed", None),
        (0, "productive", 50, "observed", None),
        (0, "unobserved", 20, "inferred", None),  # the shortfall
        (1, "unobserved", 50, "observed", None),  # the child has more than there is
        (2, "unobserved", 7, "observed", None),  # no child
        (4, "hang", 2, "extrapolated", None),  # an exact fit
    ]
    assert result.faults.rows(named=True) == [
        {"subject": 1, "cause": "unobserved", "parent_ns": 50, "child_ns": 51, "excess_ns": 1},
        {"subject": 3, "cause": "unobserved", "parent_ns": 0, "child_ns": 1, "excess_ns": 1},
    ]


def test_refine_by_another_key():
    parent = frame([(0, "productive", 6, "observed", None), (1, "productive", 4, "observed", None)], ROW)
    parent = parent.with_columns(attempt=pl.Series(["j.1", "j.1"]))
    child = pl.DataFrame({"attempt": ["j.1"], "cause": ["ideal"], "chip_ns": [9], "origin": ["inferred"]})
    assert ledger.refine(parent, "productive", child, key="attempt").rows.rows() == [
        (None, "ideal", 9, "inferred", None, "j.1"),
        (None, "unobserved", 1, "inferred", None, "j.1"),
    ]


CAUSES = st.sampled_from(["productive", "input", "unobserved"])
ROWS = st.lists(
    st.tuples(st.integers(0, 3) | st.none(), CAUSES, st.integers(0, 2**61), st.just("observed"), st.none()),
    max_size=6,
)


@settings(deadline=None)
@given(ROWS, ROWS)
def test_refine_keeps_the_total_of_every_key(parent, child):
    before, detail = frame(parent, ROW), frame(child, ROW)
    result = ledger.refine(before, "productive", detail)

    def by_key(rows):
        counter = Counter()
        for (key, _), n in amounts(rows).items():
            counter[key] += n
        return counter

    assert by_key(result.rows) == by_key(before)
    leaf = {key: n for (key, cause), n in amounts(before).items() if cause == "productive"}
    excess = {key: n - leaf.get(key, 0) for key, n in by_key(detail).items() if n > leaf.get(key, 0)}
    assert dict(result.faults.select("subject", "excess_ns").rows()) == excess


# ----------------------------------------------------------------------------------------- roll, check_closed


FLEET = frame(
    [
        (0, "ideal", 30, "inferred", None),
        (0, "memory_bound", 20, "inferred", None),
        (0, "communication", 10, "observed", None),
        (1, "communication", 5, "observed", None),
        (0, "input", 15, "observed", None),
        (0, "unobserved", 15, "inferred", None),
        (0, "down", 5, "observed", None),
    ],
    ROW,
)


def test_roll_sums_by_layer():
    rolled = ledger.roll(FLEET, TAXONOMY)
    assert (rolled.capacity_ns, rolled.allocated_ns, rolled.productive_ns, rolled.ideal_ns) == (
        100,
        95,
        50,
        30,
    )
    assert rolled.by_cause == (
        ("scheduling", "down", "observed", 5),
        ("runtime", "communication", "observed", 15),
        ("runtime", "input", "observed", 15),
        ("runtime", "unobserved", "inferred", 15),
        ("program", "ideal", "inferred", 30),
        ("program", "memory_bound", "inferred", 20),
    )


def test_a_view_moves_a_cause_and_changes_no_amount():
    ours, theirs = (ledger.roll(FLEET, TAXONOMY, view) for view in ("default", "fleet-paper"))
    assert (theirs.productive_ns, theirs.allocated_ns) == (65, 95)
    assert (theirs.ideal_ns, theirs.capacity_ns) == (ours.ideal_ns, ours.capacity_ns)
    assert Counter(t[1:] for t in theirs.by_cause) == Counter(t[1:] for t in ours.by_cause)


def test_ideal_is_unknown_while_computing_time_is_not_split():
    unsplit = pl.concat([FLEET, frame([(1, "productive", 1, "observed", None)], ROW)])
    rolled = ledger.roll(unsplit, TAXONOMY)
    assert rolled.ideal_ns is None
    assert rolled.productive_ns == 51


def test_roll_of_a_fleet_larger_than_int64():
    rows = frame([(subject, "down", 2**62, "observed", None) for subject in range(4)], ROW)
    assert ledger.roll(rows, TAXONOMY).capacity_ns == 2**64


def test_roll_of_nothing():
    assert ledger.roll(FLEET.clear(), TAXONOMY) == ledger.Rolled(0, 0, 0, 0, ())


@pytest.mark.parametrize(("cause", "view"), [("comunication", "default"), ("down", "fleet")])
def test_roll_refuses_unknown_names(cause, view):
    with pytest.raises(KeyError, match="did you mean"):
        ledger.roll(frame([(0, cause, 1, "observed", None)], ROW), TAXONOMY, view)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(TAXONOMY.causes)), BIG, st.sampled_from(ledger.ORIGINS))))
def test_views_agree_on_everything_but_layers(entries):
    rows = frame([(0, cause, n, origin, None) for cause, n, origin in entries], ROW)
    views = [ledger.roll(rows, TAXONOMY, view) for view in TAXONOMY.views]
    assert len({(v.capacity_ns, v.allocated_ns, v.ideal_ns) for v in views}) == 1
    assert views[0].capacity_ns == sum(n for _, n, _ in entries)
    for view in views:
        assert view.productive_ns == sum(t.chip_ns for t in view.by_cause if t.layer == "program")
        assert view.ideal_ns is None or view.ideal_ns <= view.productive_ns


def test_a_ledger_that_does_not_close_says_by_how_much():
    ledger.check_closed(FLEET, 100)
    with pytest.raises(ledger.LedgerNotClosed, match="off by -1 chip-ns of 101") as error:
        ledger.check_closed(FLEET, 101)
    assert error.value.residual_ns == -1
