"""A profile as batches of the canonical tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.errors import InputError, Notice, listed
from mpg_parsers.kineto.metadata import node
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.kineto.rows import extent
from mpg_parsers.tables import DEVICE_OPS, DEVICES, HOST_EVENTS, PROGRAM_RUNS, PROGRAMS, SOURCES, STEPS
from mpg_parsers.xla import busy
from mpg_parsers.xla import device as work
from mpg_parsers.xla import host as threads
from mpg_parsers.xla import steps as stepping
from mpg_parsers.xla.catalogue import Catalogue
from mpg_parsers.xla.losses import lost_runs
from mpg_parsers.xla.planes import devices, hosts, named
from mpg_parsers.xla.private import cleaned, said
from mpg_parsers.xla.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.xla.planes import Device
    from mpg_parsers.xla.space import Space, Value

Batch = tuple[str, pl.DataFrame]
CAP = 1_000_000  # events at which the exporter of trace.json.gz stops


def batches(
    space: Space, found_wrong: list[Notice], path: str, form: str, options: ParseOptions
) -> Iterator[Batch]:
    """All tables of a profile; found_wrong: notices of reading it.

    Raises InputError: no_device_activity, and what decoding a line raises.
    """
    clean = _same if options.keep_names else strip_directories
    found = devices(space)
    programs = Programs(space)
    catalogue = Catalogue(programs, clean)
    span: tuple[int, int] | None = None
    events = sum(line.count for plane in space.planes for line in plane.lines)
    ran, used, at_work, clocks = [], set(), [], list[Notice]()
    for each in found:
        did = work.recorded(each, catalogue)
        clocks += did.notices()
        ran.append(did.runs)
        if any(rows.height for rows in did.activity):
            at_work.append(busy.union(did.activity))
        for rows in did.activity:
            if rows.height:
                used.add(each.number)
                span = _widened(rows, span)
                yield "device_ops", DEVICE_OPS.conform(rows)
        if (waits := work.waits(each, did.core)).height:
            yield "host_events", HOST_EVENTS.conform(waits if options.keep_names else cleaned(waits))
    if not used:
        raise _silent(space, path)
    host = threads.events(hosts(space), clean, busy.everywhere(at_work))
    span = _widened(host, span)
    yield "host_events", HOST_EVENTS.conform(host)
    runs = pl.concat(ran) if options.keep_names else cleaned(pl.concat(ran))
    steps = stepping.find([each for each in found if each.number in used], host, runs)
    yield "steps", STEPS.conform(steps.table)
    yield "program_runs", PROGRAM_RUNS.conform(runs)
    yield "hlo_ops", catalogue.table()
    yield "programs", PROGRAMS.conform(pl.DataFrame(programs.rows(), infer_schema_length=None))
    rows_ = [_device(each) for each in found if each.number in used]
    yield "devices", DEVICES.conform(pl.DataFrame(rows_, infer_schema_length=None))
    notices = [
        *found_wrong,
        *lost_runs(host),
        *clocks,
        *steps.notices,
        *programs.notices(),
        *_notices(space, keep_names=options.keep_names),
    ]
    yield "sources", _source(space, form, span, events, notices, keep_names=options.keep_names)


def _same(name: str) -> str:
    return name


def _widened(rows: pl.DataFrame, span: tuple[int, int] | None) -> tuple[int, int] | None:
    if rows.is_empty():
        return span
    first, last = extent(rows, span)
    return first or 0, last or 0


def _silent(space: Space, path: str) -> InputError:
    """The error for a profile in which no device did anything."""
    on_cpu = any(
        about.name.startswith(("PjRtCpuClient", "TfrtCpu", "ThunkExecutor::"))
        for plane in hosts(space)
        for about in plane.metadata.values()
    )
    planes = named(space.planes) or "none"
    message = f"no device did anything in this profile; its planes are {planes}"
    hint = (
        "the program ran on XLA's CPU backend: profile it on the machine with the accelerator"
        if on_cpu
        else "the device tracer did not start, or nothing ran: is the profiler allowed to use the device, and by one "
        "process alone?"
    )
    return InputError("no_device_activity", path, message, hint=hint)


def _notices(space: Space, *, keep_names: bool) -> Iterator[Notice]:
    if space.capped:
        message = (
            f"{CAP} events: the exporter of trace.json.gz stops there without a word, and leaves out those that start "
            "last; give the .xplane.pb of the same run"
        )
        yield Notice("event_cap", message)
    for kind, texts in (("capture_incomplete", space.errors), ("capture_warning", space.warnings)):
        for text in texts[:5]:
            shown = text[:300] if keep_names else said(text[:2000], space.hostnames)[:300]
            yield Notice(kind, f"the profiler says: {shown}")


def _device(each: Device) -> dict[str, Any]:
    """The row of devices."""
    stats: dict[str, Value] = {}
    for plane in each.planes:
        stats = {**plane.stats, **stats}
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    name = stats.get("device_type_string") or stats.get("device_model") or stats.get("device_vendor")
    name = name or ("TPU" if each.kind == "TPU" else None)
    bandwidth = _scaled(stats.get("peak_hbm_bw_gigabytes_per_second"), 10**9)
    return {
        "device": each.number,
        "name": str(name) if name else None,
        "memory_bytes": _scaled(stats.get("memory_size"), 1),
        "sm_count": _scaled(stats.get("core_count"), 1),
        "compute_capability": f"{major}.{minor}"
        if isinstance(major, int) and isinstance(minor, int)
        else None,
        "bandwidth": bandwidth or _scaled(stats.get("memory_bandwidth"), 1),
        "clock_hz": _scaled(stats.get("clock_rate"), 1000),
        "peak_flops": _scaled(stats.get("peak_teraflops_per_second"), 10**12) if each.kind == "TPU" else None,
    }


def _scaled(value: Value | None, factor: int) -> int | None:
    """A positive figure in its basic unit."""
    if not isinstance(value, int | float) or not 0 < value * factor < 1 << 62:
        return None
    return round(value * factor)


def _source(
    space: Space,
    form: str,
    span: tuple[int, int] | None,
    events: int,
    notices: list[Notice],
    *,
    keep_names: bool,
) -> pl.DataFrame:
    """The row of sources. Times are relative to the start of the profile, if that is stated."""
    stopped = space.stop_ns - space.start_ns if space.start_ns and space.stop_ns else None
    host = next(iter(space.hostnames), "")
    row: dict[str, Any] = {
        "format": form,
        "framework": "XLA",
        "host": (host or None) if keep_names else None,
        "node": node(host),
        "base_ns": space.start_ns or None,
        "profile_start_ns": 0 if space.start_ns else None,
        "profile_end_ns": stopped if stopped and stopped > 0 else None,
        "first_ns": span and span[0],
        "last_ns": span and span[1],
        "events": events,
        "notices": listed(notices),
    }
    return SOURCES.conform(pl.DataFrame([row], infer_schema_length=None))
