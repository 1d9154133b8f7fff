"""`mpg explain`: every cause, in full."""

from __future__ import annotations

import pytest

from mpg_cli import commands
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_parsers.errors import UsageError

CAUSES = load_taxonomy().causes


def test_a_cause_in_full() -> None:
    assert commands.explain_text("profiler_overhead").split("\n") == [
        "profiler_overhead (runtime): profiler overhead",
        "",
        "The device waited while the profiler flushed buffers, collected stacks or did other work of its own.",
        "",
        "How measured: Starved time (before the launch call that ends an idle gap has returned) that the",
        "trace's own rows of profiler overhead cover, of any thread.",
        "",
        "Look at: Overhead rows in the trace, and options that cost much: stacks, shapes, memory.",
        "",
        "Usual fixes:",
        "  - Do not count it against the job: it is absent when nobody profiles",
        "  - Profile fewer steps after a warm-up, and without stacks where they are not needed",
        "",
        "Owner: platform",
        "Killer: none of the four (communication wait, data starvation, failure restart, algorithmic inefficiency)",
    ]


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_every_cause_has_every_part(cause) -> None:  # type: ignore[no-untyped-def]
    text = " ".join(commands.explain_text(cause.id).split())
    for part in (
        cause.label,
        cause.meaning,
        cause.measured,
        cause.look_at,
        *cause.fixes,
        f"Owner: {cause.owner}",
    ):
        assert " ".join(part.split()) in text
    assert ("Usual fixes:" in text) == bool(cause.fixes)


@pytest.mark.parametrize(
    ("cause", "killer"), [("input", "data starvation"), ("lost_work", "failure restart")]
)
def test_the_killer(cause: str, killer: str) -> None:
    assert commands.explain_text(cause).endswith(f"\nKiller: {killer}")


def test_the_list_and_a_slip() -> None:
    assert [line.split()[1] for line in commands.explain_text(None).split("\n")] == list(CAUSES)
    with pytest.raises(UsageError, match="did you mean"):
        commands.explain_text("inptu")
