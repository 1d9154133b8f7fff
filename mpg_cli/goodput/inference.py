"""Steps of inference engines: vLLM, SGLang, ATOM and xDiT annotate each forward pass with what is in its batch.

An engine runs ahead of the device: the annotation may end before its first kernel starts. The device's part of a step
is therefore the work whose launch calls lie in the annotation, whenever it runs.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.nesting import nest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.store import Dataset

NUMBERS = ("requests", "tokens")
PARTS = ("prefill", "decode")
PROCESS = ("source", "process")
MEANING = ("phase", *NUMBERS)


@dataclass(frozen=True, slots=True)
class Form:
    """One form of annotation (fields: see inference.toml)."""

    id: str
    phase: str | None
    pattern: str
    examples: tuple[Mapping[str, object], ...]

    def read(self, names: pl.Series) -> pl.DataFrame:
        """Those of `names` that have this form, with what they say: name, phase, requests, tokens (null: unknown)."""
        pattern = f"^(?:{self.pattern})$"
        found = names.alias("name").to_frame().filter(col.name.str.contains(pattern))
        groups = found.select(col.name.str.extract_groups(pattern).alias("groups")).unnest("groups")
        numbers = groups.select(pl.all().cast(pl.Int64, strict=False))
        parts = pl.DataFrame(
            [
                numbers[name] if name in numbers.columns else pl.Series(name, [None] * found.height, pl.Int64)
                for name in (*NUMBERS, *(f"{part}_{number}" for part in PARTS for number in NUMBERS))
            ]
        )
        return found.hstack(parts).select(
            "name",
            pl.lit(self.phase, pl.String).fill_null(_phase()).alias("phase"),
            *(
                pl.coalesce(number, pl.sum_horizontal(*_both(number), ignore_nulls=False)).alias(number)
                for number in NUMBERS
            ),
        )


def _both(number: str) -> list[str]:
    return [f"{part}_{number}" for part in PARTS]


def _phase() -> pl.Expr:
    """The phase that the numbers of requests tell; null for a step without any."""
    prefill, decode = (col(name) > 0 for name in _both("requests"))
    mixed = pl.when(prefill & decode).then(pl.lit("mixed"))
    return mixed.when(prefill).then(pl.lit("prefill")).when(decode).then(pl.lit("decode"))


@cache
def forms() -> tuple[Form, ...]:
    """The forms of inference.toml, in order."""
    text = resources.files(__package__).joinpath("inference.toml").read_text(encoding="utf-8")
    return tuple(
        Form(form["id"], form.get("phase"), form["pattern"], tuple(form["examples"]))
        for form in tomllib.loads(text)["form"]
    )


def read_names(names: pl.Series) -> pl.DataFrame:
    """Those of the distinct `names` that annotate a step: name, phase, requests, tokens; the first form that fits."""
    read = [form.read(names) for form in forms()]
    found = pl.concat(read).unique("name", keep="first", maintain_order=True)
    return found.filter(col.phase.is_not_null())


def steps(dataset: Dataset, loaded: Activity) -> pl.DataFrame:
    """One row per step and device, in order of start: source, subject, device, name, phase, requests, tokens, start_ns,
    host_ns, device_ns, busy_ns, compute_ns.

    device_ns is the length of the hull of the device activity launched in the annotation, busy_ns that of the union of
    all of it and compute_ns that of what computes; null where none is linked. A step that launched nothing has one row
    for each device of its source, one that did has one for each device it launched on.

    Where annotations of one thread that say the same (phase, requests, tokens) lie one in the other, as where an engine
    and a tool around it both annotate, they are the same work, and the innermost is the step.
    """
    found = _annotations(dataset).with_row_index("step")
    launched = _launched(found, _work(dataset, loaded.ops, found)) if found.height else found.clear()
    figures = _figures(launched) if launched.height else pl.DataFrame(schema=_FIGURES)
    subjects = loaded.subjects.select("subject", "source", "device")
    idle = found.join(figures, on="step", how="anti").join(subjects, on="source")
    busy = found.join(figures, on="step").join(subjects, on=["source", "subject"])
    rows = pl.concat([busy, idle], how="diagonal").sort("source", "start_ns", "step", "subject")
    times = ("start_ns", "host_ns", "device_ns", "busy_ns", "compute_ns")
    return rows.with_columns(host_ns=col.end_ns - col.start_ns).select(
        "source", "subject", "device", "name", *MEANING, *times
    )


_FIGURES = pl.Schema(
    {
        "step": pl.get_index_type(),
        "subject": pl.Int64,
        "device_ns": pl.Int64,
        "busy_ns": pl.Int64,
        "compute_ns": pl.Int64,
    }
)


def _annotations(dataset: Dataset) -> pl.DataFrame:
    """The annotations that name a step: source, process, start_ns, end_ns, name, phase, requests, tokens."""
    ranges = (
        dataset.scan("host_events")
        .filter(col.kind.is_in(["annotation", "op"]) & col.dur_ns.is_not_null())
        .select(*PROCESS, "thread", "name", "start_ns", end_ns=col.start_ns + col.dur_ns)
    )
    names = ranges.select(col.name.unique()).collect()["name"]
    meaning = read_names(names)
    found = ranges.join(meaning.lazy(), on="name").collect()
    return _innermost(found).sort(*PROCESS, "start_ns", "end_ns", "name").drop("thread")


def _innermost(found: pl.DataFrame) -> pl.DataFrame:
    """`found` without what encloses an equal annotation."""
    alike = found.sort("start_ns", "name").with_row_index("row")
    keys = (*PROCESS, "thread", *MEANING)
    keyed = alike.with_columns(key=pl.struct(keys).rank("dense"))
    parents = nest(keyed).parents
    return alike.join(parents.select(row="parent").drop_nulls(), on="row", how="anti").drop("row")


def _work(dataset: Dataset, ops: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """The linked device activity, by process and start of its launch call: source, process, call_ns, subject, start_ns,
    end_ns, activity.
    """
    calls = (
        dataset.scan("host_events")
        .filter((col.kind == "runtime") & (col.correlation != 0))
        .join(found.lazy().select(PROCESS).unique(), on=PROCESS, how="semi", nulls_equal=True)
        .group_by("source", "correlation")
        .agg(col.process.first(), call_ns=col.start_ns.min())
        .collect()
    )
    linked = ops.select("source", "correlation", "subject", "start_ns", "end_ns", "activity")
    return linked.join(calls, on=["source", "correlation"]).sort(*PROCESS, "call_ns")


def _launched(found: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """step, subject, start_ns, end_ns, activity: the device activity launched in each annotation.

    Sorted by process and call, that of one annotation is consecutive: from the first call in it to the last.
    """
    processes = found.select(PROCESS).unique().sort(PROCESS).with_row_index("at")
    rows = work.join(processes, on=PROCESS, nulls_equal=True, maintain_order="left").with_row_index("row")
    spans = found.join(processes, on=PROCESS, nulls_equal=True)
    calls = rows.select("at", "row", "call_ns").sort("call_ns", "row")
    first = (
        spans.select("step", "at", "start_ns")
        .sort("start_ns")
        .join_asof(
            calls, left_on="start_ns", right_on="call_ns", by="at", strategy="forward", check_sortedness=False
        )
    )
    last = (
        spans.select("step", "at", "end_ns")
        .sort("end_ns")
        .join_asof(
            calls, left_on="end_ns", right_on="call_ns", by="at", allow_exact_matches=False,
            check_sortedness=False,
        )
    )  # fmt: skip
    ranges = first.join(last.select("step", row_last="row"), on="step").filter(col.row <= col.row_last)
    pairs = ranges.select("step", row=pl.int_ranges("row", col.row_last + 1)).explode("row")
    pairs = pairs.cast({"row": rows.schema["row"]})
    return pairs.join(rows, on="row").select("step", "subject", "start_ns", "end_ns", "activity")


def _figures(launched: pl.DataFrame) -> pl.DataFrame:
    key = ["step", "subject"]
    hull = launched.group_by(key).agg(device_ns=col.end_ns.max() - col.start_ns.min())
    busy = intervals.total(launched, key).rename({"length_ns": "busy_ns"})
    compute = intervals.total(launched.filter(col.activity == "compute"), key)
    joined = hull.join(busy, on=key).join(compute.rename({"length_ns": "compute_ns"}), on=key, how="left")
    return joined.with_columns(col.compute_ns.fill_null(0)).cast(_FIGURES)
