"""The CSV pages of Nsight Compute: `ncu --import FILE --csv --page raw` and `--page details`.

Raw: a row of names, a row of units, a row per launch. Details: a row per metric (16 columns, by label) and per
rule (20 columns); `--metrics` without a page gives the same with metric ids for labels. Before the table there may
be whatever the program and the profiler printed, and several tables may follow one another.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from mpg_parsers.errors import InputError
from mpg_parsers.ncu.launches import DISPLAY_NAME, Launch, integer, sides, wanted
from mpg_parsers.ncu.values import ForeignNumberError, parse_value

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    Tables = Generator[Launch, None, list[str]]

HEADER = re.compile(r'"?ID"?,"?Process ID"?,"?Process Name"?,')
SUMMARY = re.compile(r'"?Process ID"?,"?Process Name"?,.*"?Invocations"?,')
AGAIN = "ncu --import REPORT.ncu-rep --csv --page raw"
# labels of the details page: (label, whether it is a percentage) → metric
LABELS = {
    ("Duration", False): "gpu__time_duration.sum",
    ("SM Frequency", False): "gpc__cycles_elapsed.avg.per_second",
    ("Compute (SM) Throughput", True): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("Memory Throughput", True): "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ("Memory Throughput", False): "dram__bytes.sum.per_second",
    ("DRAM Throughput", True): "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ("SM Active Cycles", False): "sm__cycles_active.avg",
    ("Achieved Occupancy", True): "sm__warps_active.avg.pct_of_peak_sustained_active",
    ("Waves Per SM", False): "launch__waves_per_multiprocessor",
}


@dataclass
class Pages:
    """Reads the launches of one file; `bad_rows` counts rows of a table that are none of its."""

    path: str
    bad_rows: int = 0

    def launches(self, lines: Iterable[str]) -> Iterator[Launch]:
        """Raises InputError: unsupported_format (a summary, another locale's numbers), corrupt_input."""
        rest = iter(lines)
        header = next((line for line in rest if HEADER.match(line) or SUMMARY.match(line)), "")
        if SUMMARY.match(header):
            message = "a summary over launches (--print-summary), not the launches themselves"
            raise InputError("unsupported_format", self.path, message, hint=AGAIN)
        rows = csv.reader(chain([header], rest))
        try:
            yield from self._tables(rows)
        except csv.Error as error:
            where = f"line {rows.line_num}"
            raise InputError(
                "corrupt_input", self.path, f"no CSV: {error}", where=where, hint=AGAIN
            ) from error
        except ForeignNumberError as error:
            message = f"the number {error} may have dots between thousands, or a decimal comma"
            hint = f"export it again with English numbers: LC_ALL=C {AGAIN}"
            raise InputError("unsupported_format", self.path, message, hint=hint) from error

    def _tables(self, rows: Iterator[list[str]]) -> Iterator[Launch]:
        columns = next(rows, [])
        while columns:
            read = self._details if "Metric Name" in columns else self._raw
            columns = yield from read(columns, rows)

    def _raw(self, columns: list[str], rows: Iterator[list[str]]) -> Tables:
        """Launches of one raw page; returns the header of the next table, if there is one."""
        units = next(rows, [])
        if len(units) != len(columns) or (units and units[0]):
            message = "the row of units is missing below the names of the columns"
            raise InputError("corrupt_input", self.path, message, hint=AGAIN)
        metrics = [(at, name, units[at]) for at, name in enumerate(columns) if wanted(name)]
        for row in rows:
            if row[:2] == ["ID", "Process ID"]:
                return row
            launch = self._launch(columns, row, least=len(columns))
            if launch:
                values = ((name, parse_value(row[at], unit)) for at, name, unit in metrics)
                launch.metrics = {name: value for name, value in values if value is not None}
                yield launch
        return []

    def _details(self, columns: list[str], rows: Iterator[list[str]]) -> Tables:
        """The same of one details page: rows of one launch follow one another."""
        at = {name: columns.index(name) for name in ("Metric Name", "Metric Unit", "Metric Value")}
        current: Launch | None = None
        for row in rows:
            if row[:2] == ["ID", "Process ID"]:
                if current:
                    yield current
                return row
            launch = self._launch(columns, row, least=max(at.values()) + 1)
            if launch is None:
                continue
            if current is None or (launch.number, launch.process) != (current.number, current.process):
                if current:
                    yield current
                current = launch
            _add(current, row[at["Metric Name"]], row[at["Metric Unit"]], row[at["Metric Value"]])
        if current:
            yield current
        return []

    def _launch(self, columns: list[str], row: list[str], *, least: int) -> Launch | None:
        """The launch a row of at least so many cells is of."""
        number = integer(row[0]) if len(row) >= least else None
        if number is None:
            # what the profiler prints after a table is no row of it, and no fault
            self.bad_rows += bool(row) and not row[0].startswith("==")
            return None
        cells = dict(zip(columns, row, strict=False))
        return Launch(
            number,
            cells.get("Kernel Name", ""),
            process=integer(cells.get("Process ID")),
            device=integer(cells.get("Device")),
            compute_capability=cells.get("CC") or None,
            device_name=cells.get(DISPLAY_NAME) or None,
            host=cells.get("Host Name") or None,
            grid=sides(cells.get("Grid Size")),
            block=sides(cells.get("Block Size")),
        )


def _add(launch: Launch, label: str, unit: str, text: str) -> None:
    name = LABELS.get((label, unit == "%"), label)
    if wanted(name) and (value := parse_value(text, unit)) is not None:
        launch.metrics[name] = value
    elif name == DISPLAY_NAME:
        launch.device_name = text or None
