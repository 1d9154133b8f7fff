"""Calls folded into paths of names."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import paths

CALLS = {"row": pl.UInt32, "parent": pl.UInt32, "label": pl.String}


def fold(calls: list[tuple[int, int | None, str]]) -> tuple[dict[int, str], pl.DataFrame]:
    """By row, the text of its path; and the paths."""
    found, tree = paths.fold(pl.DataFrame(calls, schema=CALLS, orient="row"))
    texts = paths.texts(tree)
    return {row: texts[path] for row, path in found.iter_rows()}, tree


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 20), st.sampled_from("abc")), max_size=20))
def test_every_call_has_the_names_that_lead_to_it(given_calls: list[tuple[int, str]]) -> None:
    calls = [
        (row, above if 0 <= above < row else None, label) for row, (above, label) in enumerate(given_calls)
    ]
    expected: dict[int, str] = {}
    for row, above, label in calls:
        expected[row] = label if above is None else f"{expected[above]} / {label}"
    found, tree = fold(calls[::-1])
    assert found == expected
    assert sorted(paths.texts(tree)) == sorted(set(expected.values()))
    assert tree["depth"].to_list() == [text.count(" / ") for text in paths.texts(tree)]
    assert tree.filter(pl.col("above") >= pl.col("path")).is_empty()
    assert tree["path"].to_list() == list(range(tree.height))


def test_calls_nested_without_end_are_cut() -> None:
    deep = paths.MAX_DEPTH + 9
    found, tree = fold([(row, row - 1 if row else None, "f") for row in range(deep)])
    assert list(found.values()).count(paths.TOO_DEEP) == 9
    assert tree.height == paths.MAX_DEPTH + 1


def test_long_names_are_cut() -> None:
    found, _ = fold([(0, None, "x" * 999)])
    assert found == {0: "x" * paths.MAX_LABEL}
