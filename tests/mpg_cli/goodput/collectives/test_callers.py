"""What names a kernel whose own name leaves the collective open. Times are nanoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_cli.goodput import activity, collectives
from tests.mpg_cli.datasets import COMM, Row, call, comm, dataset, host, op, source
from tests.mpg_cli.goodput.collectives.ranks import RULES, SEND_RECV

if TYPE_CHECKING:
    import polars as pl

GENERIC = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
BASE = "c10d::alltoall_base_"
FLOATS = '["float", "float", "", "", "", "Scalar"]'


def named(
    events: list[Row], name: str = SEND_RECV, *, at: int = 50, thread: int = 1, **about: Any
) -> tuple[str | None, int | None, str | None]:
    """collective, in_elements, element_type of a kernel whose launch call starts at `at`."""
    launch = call(7, at=at, thread=thread)
    made = dataset(source([op(0, 5), comm(100, 5, name, correlation=7, **about)], events=[*events, launch]))
    before = activity.load(made, made.scan("sources").collect(), RULES)
    after = collectives.with_callers(before, made)
    assert after.ops.columns == before.ops.columns
    untouched = ["collective", "in_elements", "element_type"]
    assert after.ops.drop(untouched).equals(before.ops.drop(untouched))
    assert after.ops[untouched].row(0) == (None, None, None)
    found: tuple[str | None, int | None, str | None] = after.ops[untouched].row(1)
    return found


def base(start: int, dur: int, output: str = "[6144]", given: str = "[6144]", types: str = FLOATS) -> Row:
    dims = f"[{output}, {given}, [], [], [], []]"
    return host(start, dur, BASE, "op", input_dims=dims, input_types=types)


@pytest.mark.parametrize(
    ("events", "name", "expected"),
    [
        pytest.param([base(40, 20), host(45, 10, "nccl:all_to_all")], SEND_RECV, "all_to_all", id="a range"),
        pytest.param([base(40, 20)], SEND_RECV, "alltoall_base", id="an operator"),
        pytest.param([host(40, 20, "xccl:all_to_all")], SEND_RECV, "all_to_all", id="another backend"),
        pytest.param([host(40, 20, "_c10d_functional::all_to_all_single", "op")], SEND_RECV, "all_to_all_single"),
        pytest.param([host(40, 20, "nccl:send 0->1")], SEND_RECV, None, id="a send is none"),
        pytest.param([host(40, 20, "c10d::gather_", "op")], SEND_RECV, None, id="nor is a gather"),
        pytest.param([host(40, 20, "nccl:coalesced")], SEND_RECV, None, id="a group of calls"),
        pytest.param([base(40, 20), host(45, 10, "nccl:recv 0<-1")], SEND_RECV, None, id="the innermost counts"),
        pytest.param([base(40, 20), host(41, 5, "nccl:send 0->1")], SEND_RECV, "alltoall_base", id="not an ended one"),
        pytest.param([base(30, 20)], SEND_RECV, None, id="ended when the launch began"),
        pytest.param(
            [host(40, 20, "nccl:all_to_all"), base(40, 30)], SEND_RECV, "all_to_all", id="began with the one around it"
        ),
        pytest.param(
            [base(20, 25), host(45, 10, "nccl:all_to_all")], SEND_RECV, "all_to_all", id="one ended as it began"
        ),
        pytest.param([base(50, 20)], SEND_RECV, "alltoall_base", id="began with the launch"),
        pytest.param([host(40, 20, "## alltoall ##")], SEND_RECV, None, id="a range of the user"),
        pytest.param([base(40, 20) | {"thread": 2}], SEND_RECV, None, id="on another thread"),
        pytest.param([base(40, 20) | {"process": 2}], SEND_RECV, None, id="in another process"),
        pytest.param([host(40, None, BASE, "op")], SEND_RECV, None, id="without an end"),
        pytest.param([host(40, 20, "nccl:broadcast")], GENERIC, "broadcast", id="a generic kernel"),
        pytest.param([host(40, 20, "nccl:send 0->1")], GENERIC, "send", id="which may be a send"),
        pytest.param([host(40, 20, "nccl:coalesced")], GENERIC, None, id="or several"),
        pytest.param([base(40, 20)], COMM, None, id="the kernel's own name says what it is"),
        pytest.param([base(40, 20)], "sgemm", None, id="no communication"),
    ],
)  # fmt: skip
def test_names(events: list[Row], name: str, expected: str | None) -> None:
    assert named(events, name)[0] == expected


def test_what_is_recorded_with_the_kernel_stays() -> None:
    about: Row = {"collective": "recv", "in_elements": 3, "element_type": "Half"}
    assert named([base(40, 20)], **about) == ("recv", 3, "Half")


def test_a_thread_without_a_number_is_a_thread() -> None:
    missing = {"thread": None}
    assert named([base(40, 20) | missing], thread=None)[0] == "alltoall_base"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "given_", "types", "expected"),
    [
        ("[6144]", "[6144]", FLOATS, (6144, "float")),
        ("[8, 6]", "[2, 24]", FLOATS, (48, "float")),
        ("[768]", "[3392]", FLOATS, (None, None)),
        ("[]", "[]", FLOATS, (None, None)),
        ("[[6], [6]]", "[[6], [6]]", '["TensorList", "TensorList"]', (None, None)),
        ("[6]", "[6]", "", (None, None)),
        ("[6]", "[6]", "[1, 2]", (None, None)),
        ("[-6]", "[-6]", FLOATS, (None, None)),
        ("[99999999999999999999]", "[99999999999999999999]", FLOATS, (None, None)),
        ("[99999999999, 99999999999]", "[99999999999, 99999999999]", FLOATS, (None, None)),
        ('"x"', '"x"', FLOATS, (None, None)),
        ("[6, ...", "[6", FLOATS, (None, None)),
    ],
)
def test_elements_of_an_even_all_to_all(output: str, given_: str, types: str, expected: Any) -> None:
    assert named([base(40, 20, output, given_, types), host(45, 10, "nccl:all_to_all")])[1:] == expected


def test_kernels_without_a_launch_call_stay_as_they_are() -> None:
    made = dataset(source([comm(100, 5, SEND_RECV, correlation=7)], events=[base(40, 20), call(8, at=50)]))
    loaded = activity.load(made, made.scan("sources").collect(), RULES)
    assert collectives.with_callers(loaded, made).ops.equals(loaded.ops)


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 30, depth: int = 0) -> list[tuple[int, int]]:
    """Intervals that nest, as the events of one thread do."""
    found = []
    cuts = sorted(draw(st.lists(st.integers(low, high), max_size=4, unique=True)))
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        found.append((start, end))
        if depth < 3:
            found += draw(nested(start, end, depth + 1))
    return found


@settings(max_examples=25, deadline=None)
@given(nested(), st.integers(0, 31))
def test_the_innermost_is_the_shortest_that_is_open(spans: list[tuple[int, int]], at: int) -> None:
    spans = sorted(set(spans))
    events = [host(a, b - a, f"nccl:all_to_all_{i}x") for i, (a, b) in enumerate(spans)]
    open_ = [(b - a, f"all_to_all_{i}x") for i, (a, b) in enumerate(spans) if a <= at < b]
    expected = min(open_)[1] if open_ else None
    assert named(events, at=at)[0] == expected


def test_an_all_to_all_of_sends_and_receives_is_matched() -> None:
    def rank(start: int, range_: str) -> dict[str, list[Row]]:
        events = [host(40, 20, range_), call(7, at=50)]
        return source([comm(start, 200 - start, SEND_RECV, correlation=7)], events=events, rank=start)

    def match(range_: str) -> pl.DataFrame:
        made = dataset(rank(100, range_), rank(150, range_))
        loaded = activity.load(made, made.scan("sources").collect(), RULES)
        return collectives.match(collectives.with_callers(loaded, made))[0]

    found = match("nccl:all_to_all").select("short", "transfer_ns", "wait_ns").rows()
    assert found == [("all_to_all", 50, 50), ("all_to_all", 50, 0)]
    assert match("nccl:coalesced").is_empty()
