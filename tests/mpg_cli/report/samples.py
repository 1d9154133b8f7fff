"""All reports that the tests render, by name."""

from __future__ import annotations

from tests.mpg_cli.report import attributed, counted, hostile, programs, reports

ALL = {
    "single": reports.single,
    "two_ranks": reports.two_ranks,
    "bounds": reports.bounds,
    "no_steps": reports.no_steps,
    "fleet": reports.fleet,
    "empty": reports.empty,
    "owlv2": programs.owlv2,
    "uncovered": programs.uncovered,
    "recomputed": programs.recomputed,
    "no_bandwidth": programs.no_bandwidth,
    "starved": attributed.starved,
    "serving": attributed.serving,
    "profiled": counted.profiled,
    "hostile": hostile.hostile,
    "zeros": hostile.zeros,
}
