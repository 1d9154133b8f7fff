"""What an archive says of itself: devices, the process's place in the job, versions, the host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_parsers.errors import Notice
from mpg_parsers.kineto.metadata import node
from mpg_parsers.nsysjax.layout import DEVICES, SYSTEM, THREADS
from mpg_parsers.nsysjax.packing import judging
from mpg_parsers.nsysjax.ranges import integer, text

if TYPE_CHECKING:
    from mpg_parsers.nsysjax.packing import Pack

# pandas writes a two-level heading as the text of a tuple
HEADING = re.compile(r"\('(\w+)', '(\w+)'\)")
GPU, NAMED = "TARGET_INFO_GPU", "TARGET_INFO_NVTX_CUDA_DEVICE"
# the name that XLA gives to a device, and to the thread that launches its work
PLACE = r"#global=(?P<global>\d{1,9}),local=\d{1,9},process=(?P<process>\d{1,9}),slice=\d{1,9}#$"
DEVICE_NAME, LAUNCHER = rf"^Xla:{PLACE}", rf"^XlaLauncher:{PLACE}"
NSIGHT = re.compile(r"nsight-systems(?:-cli)?[/\\-](\d{4}\.\d+(?:\.\d+)?)")
NUMBERS = {
    "memory_bytes": "totalMemory", "sm_count": "smCount", "bandwidth": "memoryBandwidth", "clock_hz": "clockRate",
}  # fmt: skip
DEVICE_SCHEMA = pl.Schema({
    "device": pl.Int64, "global": pl.Int64, "rank": pl.Int64, "uuid": pl.String, "name": pl.String,
    "compute_capability": pl.String, **dict.fromkeys(NUMBERS, pl.Int64),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class System:
    """host and the version of Nsight Systems, as stated."""

    host: str | None = None
    nsight: str | None = None

    def fields(self, *, keep_names: bool) -> dict[str, object]:
        """Columns of `sources`."""
        version = f" (Nsight Systems {self.nsight})" if self.nsight else ""
        return {
            "framework": f"nsys-jax{version}",
            "host": self.host if keep_names else None,
            "node": node(self.host),
        }


def devices(pack: Pack) -> pl.DataFrame:
    """One row per device of the process: the columns of DEVICE_SCHEMA; rank is the process's index in the job.

    Raises InputError as Pack does.
    """
    table = pack.table(DEVICES)
    if table is None:
        return pl.DataFrame(schema=DEVICE_SCHEMA)
    headings = {
        name: f"{match[1]}.{match[2]}" for name in table.columns if (match := HEADING.fullmatch(name))
    }
    with judging(DEVICES, pack.path):
        named = table.rename(headings)
    place = _text(named, f"{NAMED}.name").str.extract_groups(DEVICE_NAME).struct
    number = pl.coalesce(_integer(named, f"{NAMED}.deviceId"), _integer(named, "cuDevice"))
    facts = pl.select(
        number.alias("device"),
        place.field("global").cast(pl.Int64),
        place.field("process").cast(pl.Int64).alias("rank"),
        _stated(named, "uuid"),
        _stated(named, "name"),
        pl.format(
            "{}.{}", _integer(named, f"{GPU}.computeMajor"), _integer(named, f"{GPU}.computeMinor")
        ).alias("compute_capability"),
        *(_positive(named, theirs).alias(ours) for ours, theirs in NUMBERS.items()),
    )
    return facts.drop_nulls("device").unique("device", keep="first").sort("device").cast(DEVICE_SCHEMA)


def _integer(table: pl.DataFrame, name: str) -> pl.Expr:
    if name not in table.columns:
        return pl.lit(pl.Series(name, [None], pl.Int64).new_from_index(0, table.height))
    return pl.lit(integer(table[name]))


def _text(table: pl.DataFrame, name: str) -> pl.Expr:
    if name not in table.columns:
        return pl.lit(pl.Series(name, [None], pl.String).new_from_index(0, table.height))
    return pl.lit(text(table[name]))


def _stated(table: pl.DataFrame, name: str) -> pl.Expr:
    value = _text(table, f"{GPU}.{name}")
    return pl.when(value != "").then(value.str.slice(0, 400)).alias(name)


def _positive(table: pl.DataFrame, name: str) -> pl.Expr:
    value = _integer(table, f"{GPU}.{name}")
    return pl.when(value > 0).then(value)


def rank(found: pl.DataFrame) -> int | None:
    """The process's index in the job; None if no device states it, or several do."""
    stated = found["rank"].drop_nulls().unique()
    return int(stated[0]) if stated.len() == 1 else None


def launchers(pack: Pack) -> pl.DataFrame:
    """process, thread and the global number of the device that the thread launches work on. Raises as Pack does."""
    table = pack.table(THREADS)
    schema = pl.Schema({"process": pl.Int64, "thread": pl.Int64, "global": pl.Int64})
    if table is None:
        return pl.DataFrame(schema=schema)
    place = _text(table, "Name").str.extract_groups(LAUNCHER).struct.field("global").cast(pl.Int64)
    rows = pl.select(_integer(table, "PID").alias("process"), _integer(table, "TID").alias("thread"), place)
    return rows.drop_nulls().unique(["process", "thread"], keep="first", maintain_order=True).cast(schema)


def on_devices(
    rows: pl.DataFrame, found: pl.DataFrame, threads: pl.DataFrame
) -> tuple[pl.DataFrame, list[Notice]]:
    """`rows` (process, thread, …) with the device that each ran on.

    With one device that is it. With several, XLA launches the work of each from a thread of its own; a program on one
    device only runs on the main thread, and its work is put on the first device, as NVIDIA's loader does.
    """
    if found.height < 2:
        number = int(found["device"][0]) if found.height else 0
        return rows.with_columns(device=pl.lit(number, pl.Int64)), []
    of_thread = threads.join(found.select("global", "device"), on="global").drop("global")
    joined = rows.join(of_thread, on=["process", "thread"], how="left", maintain_order="left")
    guessed = joined["device"].null_count()
    placed = joined.with_columns(device=pl.coalesce("device", pl.lit(found["device"][0], pl.Int64)))
    if not guessed:
        return placed, []
    message = (
        f"{guessed} operations were launched by a thread that belongs to no device in particular, and are counted on "
        f"device {found['device'][0]}"
    )
    return placed, [Notice("device_guessed", message, guessed)]


def system(pack: Pack) -> System:
    """Host and versions. Environments and command lines are not looked at. Raises as Pack does."""
    table = pack.table(SYSTEM)
    if table is None:
        return System()
    rows = pl.select(_text(table, "name").alias("name"), _text(table, "value").alias("value")).drop_nulls()
    wanted = rows.filter(col.name.is_in(["Hostname", "TargetInstallDir"]))
    values = dict(wanted.unique("name", keep="first").iter_rows())
    match = NSIGHT.search(values.get("TargetInstallDir", ""))
    host = values.get("Hostname", "")[:400]
    return System(host or None, match[1] if match else None)
