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
    from collections.abc import Mapping, Sequence

    from mpg_parsers.xla.planes import Device
    from mpg_parsers.xla.space import Metadata

SCHEMA = pl.Schema({"step": pl.Int64, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
LONGEST_NAME = 120
FEWEST = 2  # runs of a program that can be steps
EMPTY = pl.DataFrame(schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Steps:
    """table: step, name, start_ns, end_ns; notices: where they come from, if no one marked them."""

    table: pl.DataFrame
    notices: tuple[Notice, ...] = ()


def find(devices: Sequence[Device], host: pl.DataFrame, runs: pl.DataFrame) -> Steps:
    """The steps, of the first of these that has any: the Steps lines of TPUs, annotations on the host (`host`: host
    events with step_num), the runs of the program with most time (`runs`: of `runs.table`) if it ran more than once.

    Steps lines of GPUs are made from the annotations, and are shorter.
    """
    for found in (_of_devices([device for device in devices if device.kind == "TPU"]), _annotated(host)):
        if found.height:
            return Steps(found)
    return _repeated(runs)


def _of_devices(devices: Sequence[Device]) -> pl.DataFrame:
    """The steps that several devices made together: from the first that began one to the last that ended it."""
    parts = [
        _named(placed(line.events(()), line), plane.metadata)
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


def _named(timed: pl.DataFrame, metadata: Mapping[int, Metadata]) -> pl.DataFrame:
    keys = timed["metadata"].unique()
    known = [metadata.get(key) for key in keys]
    texts = pl.Series("name", [about.name[:LONGEST_NAME] if about else "" for about in known], pl.String)
    return timed.join(pl.DataFrame([keys, texts]), on="metadata")


def _annotated(host: pl.DataFrame) -> pl.DataFrame:
    """The ranges with a step number; of nested ones with the same name and number the outermost."""
    marked = host.filter(col.step_num.is_not_null()).sort("start_ns", col.dur_ns, descending=[False, True])
    rows = marked.select(step="step_num", name="name", start_ns="start_ns", end_ns=col.start_ns + col.dur_ns)
    before = col.end_ns.cum_max().shift(1).over("name")
    return rows.filter(before.is_null() | (col.start_ns >= before)).cast(SCHEMA)


def _repeated(runs: pl.DataFrame) -> Steps:
    """The runs of the program that took most of all programs' time, on the first of the devices that ran it most often.

    The runs of other devices are other stretches of time: devices that do not wait for each other drift apart, and
    steps from the first that begins to the last that ends would grow with that.
    """
    totals = runs.group_by("program_id", "name").agg(total=(col.end_ns - col.start_ns).sum())
    if totals.is_empty():
        return Steps(EMPTY)
    top = totals.sort("total", "name", "program_id", descending=[True, False, False]).row(0, named=True)
    mine = runs.filter((col.name == top["name"]) & col.program_id.eq_missing(top["program_id"]))
    often = mine.group_by("device").len().sort("len", "device", descending=[True, False]).row(0, named=True)
    if often["len"] < FEWEST or top["total"] * 2 < totals["total"].sum():
        return Steps(EMPTY)
    of_one = mine.filter(col.device == often["device"]).sort("start_ns")
    numbered = of_one.select("name", "start_ns", "end_ns", step=pl.int_range(pl.len()))
    named = numbered.with_columns(name=pl.format("{} {}", "name", "step")).select(SCHEMA.names()).cast(SCHEMA)
    several = runs["device"].n_unique() > 1
    message = (
        f"no step was marked: the {named.height} runs of the program {top['name']}, which took most time, are taken "
        f"for steps{', as device ' + str(often['device']) + ' ran them' if several else ''}"
    )
    return Steps(named, (Notice("steps_from_programs", message, named.height),))
