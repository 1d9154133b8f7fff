"""What a user can say of a fleet's analysis."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mpg_cli.goodput.scheduling.segments import JOB_KEYS
from mpg_cli.goodput.scheduling.sizes import Sizes, parse_sizes
from mpg_parsers import wall_times
from mpg_parsers.errors import UsageError, shown

if TYPE_CHECKING:
    from mpg_cli.config import Settings

MOST_CHIPS = 10**8


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """start_ns, end_ns: the window, null for all that is known; as_of_ns: what counts as now for what is still open;
    tz: zone of wall times that name none, "" for unknown; capacity: chips by type ("" for any), where no file states
    them; sizes: the size classes of jobs; by: further segments, e.g. label:team;
    redact: numbers in place of names.
    """

    start_ns: int | None = None
    end_ns: int | None = None
    as_of_ns: int | None = None
    tz: str = ""
    capacity: dict[str, int] | None = None
    sizes: Sizes = field(default_factory=Sizes)
    by: tuple[str, ...] = ()
    redact: bool = False

    @property
    def cut(self) -> bool:
        """Whether the user names any instant."""
        return not (self.start_ns is None and self.end_ns is None and self.as_of_ns is None)

    @classmethod
    def of(cls, chosen: Settings) -> Self:
        """From the settings. Raises UsageError."""
        tz = chosen.tz or ""
        if tz:
            wall_times.check_zone(tz)
        return cls(
            _instant(chosen.since, tz, "--from"),
            _instant(chosen.until, tz, "--to"),
            _instant(chosen.as_of, tz, "--as-of"),
            tz,
            None if chosen.capacity is None else _capacity(chosen.capacity),
            parse_sizes(chosen.size_classes) if chosen.size_classes else Sizes(),
            _segments(chosen.segment),
            chosen.redact,
        )


def _instant(text: str | None, tz: str, flag: str) -> int | None:
    """An instant in ns; without a zone it is in `tz`, or in that of the files."""
    if text is None:
        return None
    try:
        found, _ = wall_times.one(text if ":" in text or text.isdigit() else f"{text}T00:00:00", tz)
    except ValueError:
        found = None
    if found is None:
        raise UsageError(
            f"{flag}: {shown(text)} is no time", hint="write 2026-11-29T14:00:00Z, or 2026-11-29"
        )
    return found


def _segments(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """What to make segments by, besides the usual ones. Raises UsageError for what is none."""
    for one in wanted:
        if one not in JOB_KEYS and not re.fullmatch(r"label:.{1,100}", one, re.DOTALL):
            hint = f"known: label:NAME, {', '.join(JOB_KEYS)} (made anyway)"
            raise UsageError(f"--segment-by: {shown(one)} is nothing that jobs are told apart by", hint=hint)
    return tuple(one for one in dict.fromkeys(wanted) if one not in JOB_KEYS)


def _capacity(text: str) -> dict[str, int]:
    """Chips by type in `512` or `h100=512,a100=64`."""
    found: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:([\w.\-:/ ]{1,60}?)\s*=)?\s*(\d{1,9})\s*", part)
        if match is None or (match[1] or "") in found or not 0 < int(match[2]) <= MOST_CHIPS:
            hint = "write the number of chips, or h100=512,a100=64"
            raise UsageError(f"--capacity: {shown(text)} is no capacity", hint=hint)
        found[match[1] or ""] = int(match[2])
    return found
