"""Annotations of inference engines: what they say, and which device activity is theirs."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import activity, inference
from mpg_cli.goodput.names import NameRules
from tests.mpg_cli.datasets import call, comm, copy, dataset, host, op, source

RULES = NameRules.load()
DECODE, PREFILL = "step[DECODE bs=4]", "step[EXTEND bs=2 toks=12]"
EXAMPLES = [(form.id, example) for form in inference.forms() for example in form.examples]


@pytest.mark.parametrize(("form", "example"), EXAMPLES, ids=[str(e["name"]) for _, e in EXAMPLES])
def test_examples(form: str, example: dict[str, Any]) -> None:
    """Each is read as it must be, by the form it stands at, as the first of all that fits."""
    name = pl.Series([example["name"]])
    read = inference.read_names(name).rows(named=True)
    assert read == [{"phase": None, "requests": None, "tokens": None} | example]
    first = next(f.id for f in inference.forms() if f.read(name).height)
    assert first == form


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_0(0)_generation_0(0)",  # an empty batch
        "my step[DECODE bs=4]",
        "step[DECODE bs=4] again",
        "step[DECODE]",
        "execute_model",
        "decode",
        "ProfilerStep#3",
        "",
    ],
)
def test_no_step(name: str) -> None:
    assert inference.read_names(pl.Series([name])).is_empty()


def test_a_number_beyond_any_batch_is_unknown() -> None:
    read = inference.read_names(pl.Series([f"step[DECODE bs={10**30}]"]))
    assert read.rows() == [(f"step[DECODE bs={10**30}]", "decode", None, None)]


def rows(*sources: Any) -> list[dict[str, Any]]:
    made = dataset(*sources)
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    return inference.steps(made, loaded).rows(named=True)


def times(*sources: Any) -> list[tuple[Any, ...]]:
    names = ("name", "host_ns", "device_ns", "busy_ns", "compute_ns")
    return [tuple(row[name] for name in names) for row in rows(*sources)]


def test_the_device_runs_what_the_host_launched_earlier() -> None:
    """The annotation ends at 10; its kernels run from 50 to 65, a copy from 70 to 80."""
    ops = [op(50, 10, correlation=1), comm(55, 10, correlation=2), copy(70, 10, correlation=3)]
    late = op(100, 10, correlation=4)
    events = [host(0, 10, DECODE), *(call(n, at=n) for n in (1, 2, 3)), call(4, at=10)]
    assert times(source([*ops, late], events=events)) == [(DECODE, 10, 30, 25, 10)]


def test_any_thread_of_the_process_launches() -> None:
    ops = [op(50, 10, correlation=1), op(70, 10, correlation=2)]
    events = [host(0, 10, DECODE), call(1, at=1, thread=2), call(2, at=2, process=9)]
    assert times(source(ops, events=events)) == [(DECODE, 10, 10, 10, 10)]


def test_a_step_that_launched_nothing_linked() -> None:
    assert times(source([op(50, 10)], events=[host(0, 10, DECODE)])) == [(DECODE, 10, None, None, None)]


def test_devices_of_a_step() -> None:
    """One row for each device that a step launched on; for each of the source where it launched nothing."""
    ops = [op(50, 10, correlation=1), op(50, 20, device=1, correlation=2), op(90, 1, device=1, correlation=3)]
    events = [host(0, 10, DECODE), call(1, at=1), call(2, at=2), host(20, 10, DECODE), call(3, at=21)]
    events.append(host(40, 5, PREFILL))
    found = [(row["start_ns"], row["device"], row["device_ns"]) for row in rows(source(ops, events=events))]
    assert found == [(0, 0, 10), (0, 1, 20), (20, 1, 1), (40, 0, None), (40, 1, None)]


OUTER = "execute_12_context_2(sq12sk12sqsq72sqsk72)_generation_0(sq0sk0sqsq0sqsk0)"


@pytest.mark.parametrize(
    ("outer", "inner", "listed"),
    [
        pytest.param(host(0, 90, OUTER), host(5, 20, PREFILL), [PREFILL], id="the same work, said twice"),
        pytest.param(host(0, 90, DECODE), host(5, 20, PREFILL), [DECODE, PREFILL], id="other work"),
        pytest.param(
            host(0, 90, OUTER), host(5, 20, PREFILL, thread=2), [OUTER, PREFILL], id="on another thread"
        ),
        pytest.param(host(0, 5, PREFILL), host(5, 20, PREFILL), [PREFILL, PREFILL], id="one after the other"),
    ],
)
def test_annotations_in_annotations(outer: Any, inner: Any, listed: list[str]) -> None:
    found = times(source([op(50, 10)], events=[outer, inner]))
    assert [name for name, *_ in found] == listed


def test_several_files_do_not_mix() -> None:
    one = source([op(50, 10, correlation=1)], events=[host(0, 10, DECODE), call(1, at=1)])
    two = source([op(50, 20, correlation=1)], events=[host(0, 10, PREFILL), call(1, at=2)])
    assert times(one, two) == [(DECODE, 10, 10, 10, 10), (PREFILL, 10, 20, 20, 20)]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), max_size=4),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=8),
)
def test_hulls(annotations: list[tuple[int, int]], work: list[tuple[int, int, int]]) -> None:
    """Annotations on threads of their own, so that all are listed, however they overlap; calls at their edges."""
    events = [host(start, length, DECODE, thread=10 + n) for n, (start, length) in enumerate(annotations)] + [
        call(n + 1, at=at) for n, (at, _, _) in enumerate(work)
    ]
    ops = [op(start, length, correlation=n + 1) for n, (_, start, length) in enumerate(work)]
    expected = []
    for start, length in annotations:
        mine = [(a, a + b) for at, a, b in work if start <= at < start + length]
        hull = max(b for _, b in mine) - min(a for a, _ in mine) if mine else None
        busy = len({t for a, b in mine for t in range(a, b)}) if mine else None
        expected.append((DECODE, length, hull, busy, busy))
    assert sorted(times(source(ops, events=events)), key=str) == sorted(expected, key=str)
