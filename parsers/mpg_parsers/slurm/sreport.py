"""`sreport -P cluster utilization` and `AccountUtilizationByUser`: what the accounting daemon itself adds up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.errors import InputError, Notice
from mpg_parsers.scheduler_tables import ROLLUPS
from mpg_parsers.slurm import times
from mpg_parsers.slurm.about import About, Found
from mpg_parsers.slurm.lines import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source

TITLE = re.compile(
    r"\s*(Cluster Utilization|Cluster/Account/User Utilization|Cluster/User/Account Utilization) (\S+) - (\S+)"
)
_UNIT = re.compile(
    r"(?:Usage|Use|Time) reported in (?:\w+ )?(Second|Minute|Hour)s?(?:/.*)?\s*$", re.IGNORECASE
)
SECONDS = {"second": 1, "minute": 60, "hour": 3600}
MEASURES = {
    "used": "used", "allocated": "allocated", "down": "down", "plnd down": "planned_down",
    "planned down": "planned_down", "idle": "idle",
    "planned": "planned", "reserved": "planned", "over comm": "overcommitted", "overcommitted": "overcommitted",
    "reported": "reported",
}  # fmt: skip
HINT = "run sreport -P -t Seconds -T gres/gpu cluster utilization start=2025-01-01"
BANNER = 40


def is_report(lines: list[str]) -> bool:
    """Whether they begin with the title of such a report."""
    return any(TITLE.match(line) for line in lines[:BANNER])


@dataclass
class _Report:
    """What the banner says, and the columns."""

    start: str
    end: str
    unit: int | None = None
    names: list[str] | None = None
    delimiter: str = ""


def parse(source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows of rollups, then the row of sources. Raises InputError unsupported_format."""
    about = About("slurm-sreport")
    rows: list[dict[str, Any]] = []
    bad = Found()
    report: _Report | None = None
    for block in blocks(source, options, about.notices):
        for line, text in enumerate(block.lines, block.first):
            if title := TITLE.match(text):
                report = _Report(title[2], title[3])
            elif report is None or not text.strip() or set(text.strip()) == {"-"}:
                continue
            elif report.names is None:
                _banner(report, text, source)
            else:
                found = _figures(report, text)
                if not found:
                    bad.add(line, "?")
                rows += found
    about.events = len(rows)
    bad.left_out(about, "no whole numbers of seconds, minutes or hours")
    yield "rollups", _frame(rows, options.tz, about)
    yield "sources", about.row()


def _banner(report: _Report, text: str, source: Source) -> None:
    """A line between the title and the rows."""
    if unit := _UNIT.match(text.strip()):
        report.unit = SECONDS[unit[1].lower()]
    elif re.match(r"\s*Cluster\b", text):
        marks = re.match(r"\s*Cluster([^A-Za-z]+)", text)
        delimiter = marks[1] if marks else " "
        if not delimiter.strip(" ") or report.unit is None:
            message = "a report of sreport without delimiters, or in a unit that is not read"
            raise InputError("unsupported_format", source.path, message, hint=HINT)
        report.names, report.delimiter = (
            [name.strip().lower() for name in text.strip().split(delimiter)],
            delimiter,
        )


def _figures(report: _Report, text: str) -> list[dict[str, Any]]:
    """The figures of one row. Of columns that have one name, as 24.11 prints, the last is what it says."""
    cells = dict(zip(report.names or [], text.strip().split(report.delimiter), strict=False))
    known = {
        "cluster": cells.get("cluster") or None,
        "account": cells.get("account") or None,
        "user": cells.get("login") or None,
        "resource": cells.get("tres name") or "cpu",
        "start": report.start,
        "end": report.end,
    }
    figures = []
    for name, measure in MEASURES.items():
        number = re.match(r"\s*(\d{1,15})(?:\(.*\))?\s*$", cells.get(name, ""))
        if number:
            figures.append(known | {"measure": measure, "seconds": int(number[1]) * (report.unit or 1)})
    return figures


def _frame(rows: list[dict[str, Any]], tz: str, about: About) -> pl.DataFrame:
    texts = ("cluster", "account", "user", "resource", "measure", "start", "end")
    frame = pl.DataFrame(rows, schema={**dict.fromkeys(texts, pl.String()), "seconds": pl.Int64()})
    start, end = times.column(frame["start"], tz), times.column(frame["end"], tz)
    # the banner names the last second that is counted
    last = end.ns + (end.ns % (60 * times.SECOND) == 59 * times.SECOND).cast(pl.Int64) * times.SECOND
    if (start.bad | end.bad).any():
        about.notices.append(Notice("bad_row", "the report's times are of a form that is not read"))
    about.is_naive(start.naive, end.naive)
    return ROLLUPS.conform(frame.with_columns(start_ns=start.ns, end_ns=last))
