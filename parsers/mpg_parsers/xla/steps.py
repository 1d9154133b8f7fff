"""The steps of a profile: of the device, of the program's annotations, or the runs of the program that repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice
from mpg_parsers.xla.planes import STEPS
from mpg_parsers.xla.timeline import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpg_parsers.xla.planes import Device

SCHEMA = pl.Schema({"step": pl.Int64, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
LONGEST_NAME = 120
EMPTY = pl.DataFrame(schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Steps:
    """table: step, name, start_ns, end_ns; notices: where they come from, if no one marked them."""

    table: pl.DataFrame
    notices: tuple[Notice, ...] = ()


def find(devices: Sequence[Device], host: pl.DataFrame, runs: pl.DataFrame) -> Steps:
    """The steps, of the first of these that has any: Steps lines of TPUs, annotations on the host (`host`: host events
    with step_num), the runs of the program with most time (`runs`: of `runs.table`) if it ran more than once.

    Steps lines of GPUs are made from the annotations, and are shorter.
    """
    for found in (_of_devices([device for device in devices if device.kind == "TPU"]), _annotated(host)):
        if found.height:
            return Steps(found)
    return _repeated(runs)


def _of_devices(devices: Sequence[Device]) -> pl.DataFrame:
    """The steps that several devices made together: from the first that began one to the last that ended it."""
    parts = [
        _named(placed(line.events(()), line), {key: about.name for key, about in plane.metadata.items()})
        for device in devices
        for plane, line in device.lines(STEPS)
    ]
    if not parts:
        return EMPTY
    # a number may come back after a restart of the count
    numbered = pl.concat(
        part.sort("start_ns").with_columns(again=pl.int_range(pl.len()).over("name")) for part in parts
    )
    ends = (col.start_ns.min(), (col.start_ns + col.dur_ns).max().alias("end_ns"))
    hulls = numbered.group_by("name", "again").agg(*ends).sort("start_ns", "name")
    number = col.name.str.extract(r"^(\d{1,18})$").cast(pl.Int64)
    return hulls.select(step=number, name="name", start_ns="start_ns", end_ns="end_ns").cast(SCHEMA)


def _named(timed: pl.DataFrame, names: dict[int, str]) -> pl.DataFrame:
    keys = timed["metadata"].unique()
    texts = [names.get(key, "")[:LONGEST_NAME] for key in keys]
    return timed.join(pl.DataFrame({"metadata": keys, "name": texts}), on="metadata")


def _annotated(host: pl.DataFrame) -> pl.DataFrame:
    """The ranges with a step number; of nested ones with the same name and number the outermost."""
    marked = host.filter(col.step_num.is_not_null()).sort("start_ns", col.dur_ns, descending=[False, True])
    rows = marked.select(step="step_num", name="name", start_ns="start_ns", end_ns=col.start_ns + col.dur_ns)
    before = col.end_ns.cum_max().shift(1).over("name")
    return rows.filter(before.is_null() | (col.start_ns >= before)).cast(SCHEMA)


def _repeated(runs: pl.DataFrame) -> Steps:
    """The runs of the program that took most of all programs' time. The n-th runs on all devices are one step.

    Runs on several devices belong together by their number in the order of each device, since programs are enqueued in
    the same order on all.
    """
    totals = runs.group_by("program_id", "name").agg(total=(col.end_ns - col.start_ns).sum())
    if totals.is_empty():
        return Steps(EMPTY)
    top = totals.sort("total", "name", "program_id", descending=[True, False, False]).row(0, named=True)
    mine = runs.filter((col.name == top["name"]) & col.program_id.eq_missing(top["program_id"]))
    order = mine.sort("start_ns").with_columns(step=pl.int_range(pl.len()).over("device"))
    if order["step"].max() in (None, 0) or top["total"] * 2 < totals["total"].sum():
        return Steps(EMPTY)
    hulls = order.group_by("step").agg(col.name.first(), col.start_ns.min(), col.end_ns.max()).sort("step")
    named = hulls.with_columns(name=pl.format("{} {}", "name", "step")).select(SCHEMA.names()).cast(SCHEMA)
    message = (
        f"no step was marked: the {named.height} runs of the program {top['name']}, which took most time, are taken "
        "for steps"
    )
    return Steps(named, (Notice("steps_from_programs", message, named.height),))
