"""What an export says of itself: versions, clock, host, GPUs, and what the profiler had to complain about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from mpg_parsers.errors import Notice
from mpg_parsers.kineto.metadata import node
from mpg_parsers.kineto.private import strip_directories
from mpg_parsers.nsight.columns import Only

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.nsight.columns import Export

META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
META_KEYS = (
    "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "EXPORT_SCHEMA_VERSION_MAJOR", "EXPORT_SCHEMA_VERSION_MINOR",
    "EXPORT_SCHEMA_VERSION_MICRO", "EXPORT_PARAM_TIME_SHIFT",
)  # fmt: skip
SESSION, GPU, CUDA_DEVICE = "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE"
SYSTEM, DIAGNOSTIC = "TARGET_INFO_SYSTEM_ENV", "DIAGNOSTIC_EVENT"
YEAR_2000 = 946_684_800_000_000_000  # ns: times after it are UTC already (export with --ts-normalize)
WARNING = 2  # severity: 1 information, 2 warning, 3 error, 4 fatal
MAX_MESSAGES, MAX_MESSAGE = 20, 300
# severities are not to be trusted: some losses are only information
LOST = re.compile(
    r"(?i)not all (?:cuda|cupti) events|(?:cuda|cupti) events might (?:be|have been) (?:missing|lost|dropped)"
)
GPU_COLUMNS = {
    "memory_bytes": "totalMemory", "sm_count": "smCount", "bandwidth": "memoryBandwidth", "clock_hz": "clockRate",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Session:
    """Versions as stated; utc_ns: Unix time of the instant 0, None if not stated; host as stated."""

    format_version: str | None
    product: str | None
    utc_ns: int | None
    host: str | None

    def base_ns(self, first_ns: int | None) -> int | None:
        """What to add to times of which the first is `first_ns` to get Unix time; None if they are that."""
        return None if first_ns is None or first_ns > YEAR_2000 else self.utc_ns

    def fields(self, *, keep_names: bool) -> dict[str, Any]:
        """Columns of `sources`."""
        return {
            "format_version": self.format_version,
            "framework": f"Nsight Systems {self.product}" if self.product else "Nsight Systems",
            "host": self.host if keep_names else None,
            "node": node(self.host),
        }


def session(export: Export) -> Session:
    """What the export says of the session and of itself."""
    meta = {
        name: value[:80]
        for table in META
        for batch in export.batches(table, (), ("name", "value"), only=Only("name", META_KEYS))
        for name, value in batch.select("name", "value").iter_rows()
        if name and value
    }
    parts = [meta.get(f"EXPORT_SCHEMA_VERSION_{part}") for part in ("MAJOR", "MINOR", "MICRO")]
    version = meta.get("EXPORT_SCHEMA_VERSION") or ".".join(part for part in parts if part) or None
    starts = [
        n for batch in export.batches(SESSION, ["utcEpochNs"]) for n in batch["utcEpochNs"].drop_nulls()
    ]
    shift = _int(meta.get("EXPORT_PARAM_TIME_SHIFT", "0"))
    known = len(starts) == 1 and shift is not None
    return Session(
        version,
        meta.get("EXPORT_PRODUCT_VERSION"),
        starts[0] - (shift or 0) if known else None,
        _host(export),
    )


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _host(export: Export) -> str | None:
    """The name of the machine that was profiled (not of the one that exported)."""
    found = export.batches(SYSTEM, (), ("name", "value"), only=Only("name", ("Hostname",)))
    names = {value for batch in found for value in batch["value"].drop_nulls()}
    return names.pop()[:400] if len(names) == 1 else None


def devices(export: Export, keys: pl.DataFrame) -> pl.DataFrame:
    """The rows of `devices` for the keys (process, device).

    A process's device number leads to a GPU through TARGET_INFO_CUDA_DEVICE. Without that table it is taken for
    the GPU's number, except for the identity: CUDA_VISIBLE_DEVICES renumbers, so that is stated only if there is
    a single GPU.
    """
    gpus = _gpus(export)
    mapped = _mapping(export)
    listed = keys.join(mapped, on=["process", "device"], how="left", nulls_equal=True, maintain_order="left")
    guess = pl.lit(gpus["gpu"][0], pl.Int64) if gpus.height == 1 else col.device
    sure = gpus.height == 1
    listed = listed.with_columns(stated=col.gpu.is_not_null(), gpu=pl.coalesce("gpu", guess))
    found = listed.join(gpus, on="gpu", how="left", maintain_order="left", suffix="_gpu")
    own = pl.when(pl.lit(sure) | col.stated).then("uuid_gpu")
    sms = pl.coalesce("sm_count", "sm_count_gpu")
    return found.with_columns(uuid=pl.coalesce("uuid", own), sm_count=sms).drop(
        "gpu", "stated", "uuid_gpu", "sm_count_gpu"
    )


def _mapping(export: Export) -> pl.DataFrame:
    """process, device, gpu, uuid, sm_count."""
    batches = export.batches(CUDA_DEVICE, ("gpuId", "cudaId", "pid", "numMultiprocessors"), ["uuid"])
    schema = {
        "gpu": pl.Int64,
        "device": pl.Int64,
        "process": pl.Int64,
        "sm_count": pl.Int64,
        "uuid": pl.String,
    }
    rows = [
        batch.select(
            gpu="gpuId",
            device="cudaId",
            process="pid",
            sm_count=_positive("numMultiprocessors"),
            uuid=_stated("uuid"),
        )
        for batch in batches
    ]
    return pl.concat([pl.DataFrame(schema=schema), *rows]).unique(["process", "device"], keep="first")


def _gpus(export: Export) -> pl.DataFrame:
    """gpu, uuid, name, compute_capability and what GPU_COLUMNS names, one row per GPU."""
    numbers = ("id", *GPU_COLUMNS.values(), "computeMajor", "computeMinor")
    schema = {
        "gpu": pl.Int64,
        "uuid": pl.String,
        "name": pl.String,
        "compute_capability": pl.String,
    } | dict.fromkeys(GPU_COLUMNS, pl.Int64)
    rows = [
        batch.select(
            col.id.alias("gpu"),
            _stated("uuid"),
            _stated("name"),
            pl.format("{}.{}", "computeMajor", "computeMinor").alias("compute_capability"),
            *(_positive(theirs).alias(ours) for ours, theirs in GPU_COLUMNS.items()),
        )
        for batch in export.batches(GPU, numbers, ("uuid", "name"))
    ]
    return (
        pl.concat([pl.DataFrame(schema=schema), *rows])
        .drop_nulls("gpu")
        .unique("gpu", keep="first")
        .sort("gpu")
    )


def _stated(column: str) -> pl.Expr:
    return pl.when(col(column) != "").then(col(column).str.slice(0, 400)).alias(column)


def _positive(column: str) -> pl.Expr:
    return pl.when(col(column) > 0).then(column)


def gpu_uuids(export: Export) -> pl.DataFrame:
    """gpu and uuid of every GPU of the machine."""
    return _gpus(export).select("gpu", "uuid")


def complaints(export: Export, *, keep_names: bool) -> Iterator[Notice]:
    """What the profiler itself warned of; directories of private paths are left out."""
    counts: dict[str, int] = {}
    for batch in export.batches(DIAGNOSTIC, ["severity"], ["text"]):
        for severity, text in batch.select("severity", "text").iter_rows():
            if text and ((severity or 0) >= WARNING or LOST.search(text)):
                shown = " ".join((text if keep_names else strip_directories(text)).split())[:MAX_MESSAGE]
                counts[shown] = counts.get(shown, 0) + 1
    ordered = sorted(counts, key=lambda text: not LOST.search(text))
    for text in ordered[:MAX_MESSAGES]:
        message = f"Nsight Systems: {text}"
        if LOST.search(text):
            yield Notice("capture_incomplete", message, counts[text])
        else:
            yield Notice("profiler_warning", message, counts[text])
    if left := sum(counts[text] for text in ordered[MAX_MESSAGES:]):
        yield Notice("profiler_warning", f"Nsight Systems: {left} more messages of other kinds", left)
