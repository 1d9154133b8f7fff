"""What the sections on a fleet share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpg_cli.report.sections.common import LONGEST_LABEL, labels
from mpg_cli.report.text import NONE, cut
from mpg_cli.report.units import Scale, decimal, percent, ratio, scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mpg_cli.report.model import Job, Report, Scheduling

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
LONGEST_NAME = 40
LONGEST_SENTENCE = 400


def plain(text: str, limit: int = LONGEST_SENTENCE) -> str:
    """A sentence of the analysis: commands in it are quoted so that Markdown shows them as they are."""
    return cut(text.replace("`", "'").strip(), limit)


def words(identifier: str) -> str:
    """A stable identifier as words."""
    return cut(identifier.replace("_", " ").strip(), LONGEST_NAME) or NONE


def fleet_scale(ns: Iterable[int]) -> Scale:
    """The unit of a column of chip-time: hours from one hour up, as fleets are counted in them."""
    values = list(ns)
    fit = scale(values)
    most = max((abs(value) for value in values), default=0)
    return Scale("h", HOUR, min(2, max(0, 4 - len(str(most // HOUR))))) if most >= HOUR else fit


def chip_time(ns: int) -> str:
    """An amount of chip-time with its unit."""
    fit = fleet_scale([ns])
    whole = ns % SECOND == 0 and fit.unit == "s"
    return f"{ns // SECOND:,} chip-s" if whole else f"{fit.cell(ns)} chip-{fit.unit}"


def part(ns: int, whole: int) -> str:
    """An amount of chip-time, and what share of the whole it is where that is known."""
    share = ratio(ns, whole)
    return chip_time(ns) if share is None else f"{chip_time(ns)}, {percent(share)}"


def shares(tenths: tuple[int, ...]) -> list[str]:
    """Tenths of a percent as cells; dashes where the whole is nothing."""
    return [decimal(one, 1) if any(tenths) else NONE for one in tenths]


def cause_labels(report: Report, basis: str = "jobs") -> dict[str, str]:
    """By id, the labels of the causes of the account (basis fleet) or of waits; the others fill the gaps.

    The two share some ids: what keeps jobs waiting is what keeps chips idle.
    """
    waits = report.scheduling.waits if report.scheduling else ()
    waiting = {wait.cause: cut(wait.label or wait.cause, LONGEST_LABEL) for wait in waits}
    return waiting | labels(report) if basis == "fleet" else labels(report) | waiting


def label(cause: str, names: Mapping[str, str]) -> str:
    """A cause in words."""
    return names.get(cause) or words(cause)


def asked(job: Job) -> int:
    """The chips that a job waited for; 0 where they are not known."""
    return job.chips_requested or job.chips or 0


def waiting_ns(job: Job) -> int:
    """Chip-time that a job waited: demand."""
    return round((job.queue_wait_s or 0) * SECOND) * asked(job)


def stretch(found: Scheduling) -> str:
    """`2026-11-29T14:00:00Z to 2026-11-29T15:00:00Z`, as --from and --to take them."""
    return f"{cut(found.window_start, LONGEST_NAME)} to {cut(found.window_end, LONGEST_NAME)}"
