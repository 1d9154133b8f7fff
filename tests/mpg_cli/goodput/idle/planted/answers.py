"""What the analysis says of planted traces, in the form of their truth."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mpg_cli.analysis import AnalysisOptions, analyze
from mpg_cli.ingest import IngestOptions, ingest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fixtures.planted.traces import Planted
    from mpg_cli.report.model import Hotspot, Report

CLOSE_NS = 1_000

Causes = dict[str, int]


def report(traces: Sequence[Planted]) -> Report:
    """The report on all traces together; the file of each is called by its number."""
    with TemporaryDirectory() as folder:
        for number, trace in enumerate(traces):
            (Path(folder) / f"{number:04}.json").write_text(trace.text, encoding="utf-8")
        with ingest([folder], IngestOptions()) as dataset:
            return analyze(dataset, AnalysisOptions(per_step=True))


def by_step(found: Report, count: int) -> list[dict[int, Causes]]:
    """Of each trace, nanoseconds by step and cause."""
    steps: list[dict[int, Causes]] = [{} for _ in range(count)]
    for row in found.per_step:
        assert isinstance(row.step, int)
        steps[number(row.source)][row.step] = dict(row.causes)
    return steps


def number(source: str) -> int:
    return int(Path(source).stem)


def apart(truth: Mapping[str, int], found: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The causes whose times differ by more than a microsecond: (truth, found)."""
    pairs = {cause: (truth.get(cause, 0), found.get(cause, 0)) for cause in truth.keys() | found.keys()}
    return {cause: pair for cause, pair in pairs.items() if abs(pair[0] - pair[1]) > CLOSE_NS}


def names(hotspot: Hotspot) -> str:
    return f"{hotspot.name} {hotspot.frame or ''}"
