from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.scheduling.simpson import Comparison, Part, Ratio, compare

Side = dict[str, Ratio]


def compared(before: Side, after: Side, least: Fraction = Fraction()) -> Comparison:
    found = compare(before, after, least)
    assert found
    return found


def test_everybody_gets_better_and_the_whole_worse() -> None:
    """Small jobs at 95 % and large at 50 % each gain two points, while the work shifts to large jobs."""
    found = compared({"S": (95, 100), "XL": (50, 100)}, {"S": (97, 100), "XL": (156, 300)})
    assert (found.before, found.after) == (Fraction(145, 200), Fraction(253, 400))
    assert found.paradox
    assert found.opposite == ("S", "XL")
    assert found.rate_effect == Fraction(2, 100)
    assert found.rate_effect + found.mix_effect == found.change < 0


def test_the_effects_of_one_segment_on_paper() -> None:
    found = compared({"a": (1, 2), "b": (0, 2)}, {"a": (3, 3), "b": (0, 1)})
    # weights 1/2 → 3/4; a from 1/2 to 1; the whole from 1/4 to 3/4, with its middle at 1/2
    a, b = found.parts
    assert a == Part(
        "a", Fraction(1, 2), Fraction(1), Fraction(1, 2) * Fraction(5, 8), Fraction(1, 4) * Fraction(1, 4)
    )
    assert b == Part("b", Fraction(0), Fraction(0), Fraction(0), Fraction(-1, 2) * Fraction(-1, 4))
    assert not found.paradox
    assert (found.opposite, found.still) == ((), ())


def test_nothing_moves_but_the_mix() -> None:
    found = compared({"a": (9, 10), "b": (1, 10)}, {"a": (9, 10), "b": (2, 20)})
    assert found.paradox
    assert (found.opposite, found.still) == ((), ("a", "b"))
    assert found.rate_effect == 0


def test_one_that_moves_along_is_enough() -> None:
    found = compared({"a": (95, 100), "b": (50, 100)}, {"a": (94, 100), "b": (156, 300)})
    assert found.change < 0
    assert not found.paradox


def test_segments_on_one_side_are_mix() -> None:
    found = compared({"a": (9, 10), "gone": (1, 10)}, {"a": (9, 10), "new": (5, 10)})
    assert [(part.key, part.move, part.rate_effect) for part in found.parts] == [
        ("a", 0, 0),
        ("gone", None, 0),
        ("new", None, 0),
    ]
    assert found.paradox
    assert found.still == ("a",)
    assert not compared({"gone": (1, 10)}, {"new": (5, 10)}).paradox


def test_what_has_no_weight_has_no_say() -> None:
    found = compared(
        {"a": (95, 100), "b": (50, 100), "c": (0, 0)}, {"a": (97, 100), "b": (156, 300), "c": (7, 0)}
    )
    assert found.paradox
    assert [part.key for part in found.parts] == ["a", "b"]
    assert compare({"a": (1, 2)}, {"a": (0, 0)}) is None
    assert compare({}, {"a": (1, 2)}) is None


def test_a_move_too_small_to_tell() -> None:
    before, after = {"a": (95, 100), "b": (50, 100)}, {"a": (97, 100), "b": (156, 300)}
    assert compared(before, after, Fraction(9, 100)).paradox
    assert not compared(before, after, Fraction(10, 100)).paradox
    assert not compared(before, before).paradox


def test_a_negative_denominator_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        compare({"a": (1, -2)}, {"a": (1, 2)})


sides = st.dictionaries(
    st.sampled_from("abcd"), st.tuples(st.integers(0, 10**18), st.integers(0, 10**18)), max_size=4
)


@given(before=sides, after=sides)
def test_the_effects_add_up_exactly_both_ways(before: Side, after: Side) -> None:
    found, back = compare(before, after), compare(after, before)
    if found is None or back is None:
        assert found is back
        return
    assert found.rate_effect + found.mix_effect == found.change
    assert (found.rate_effect, found.mix_effect) == (-back.rate_effect, -back.mix_effect)
    assert (found.paradox, found.opposite, found.still) == (back.paradox, back.opposite, back.still)
    sign = 1 if found.change > 0 else -1
    both = [part.move * sign for part in found.parts if part.move is not None]
    assert found.paradox == (found.change != 0 and bool(both) and max(both) <= 0)
