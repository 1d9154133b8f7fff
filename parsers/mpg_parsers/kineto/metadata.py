"""What the document around the events says: ranks, devices, versions."""

from __future__ import annotations

import hashlib
from typing import Any

import polars as pl


def source_fields(document: dict[str, Any], *, keep_names: bool) -> dict[str, Any]:
    """The columns of `sources` that the metadata fills."""
    info = _dict(document.get("distributedInfo"))
    base = _int(document.get("baseTimeNanoseconds"))
    version = document.get("schemaVersion")
    return {
        "format_version": None if version is None else _text(str(version)[:40]),
        "framework": framework(document),
        "rank": _int(info.get("rank")),
        "world_size": _int(info.get("world_size")),
        "host": _text(document.get("host_name")) if keep_names else None,
        "node": node(document.get("host_name")),
        "base_ns": base or None,
    }


def node(host: object) -> str | None:
    """What tells one host from another without naming it: the start of the SHA-256 of its name.

    Nothing else in a file identifies the host. "localhost" is the name of every host, and so of none.
    """
    if not isinstance(host, str) or host.partition(".")[0].lower() in ("", "localhost"):
        return None
    return hashlib.sha256(host.encode("utf-8", "replace")).hexdigest()[:12]


def framework(document: dict[str, Any]) -> str:
    """The writer and the runtime it states, e.g. "PyTorch (CUDA 12.4)"."""
    cuda, hip = _int(document.get("cuda_runtime_version")), _int(document.get("hip_runtime_version"))
    if cuda:
        return f"PyTorch (CUDA {cuda // 1000}.{cuda % 1000 // 10})"
    if hip:  # HIP_VERSION = major * 10^7 + minor * 10^5 + patch
        return f"PyTorch (HIP {hip // 10**7}.{hip // 10**5 % 100})"
    return "PyTorch"


def devices(ops: pl.DataFrame, document: dict[str, Any]) -> pl.DataFrame:
    """One row per device that has activity, with its properties where the file states them.

    On AMD a device is a ROCm agent id, not an index into deviceProperties: properties are taken by id if that
    id is listed, else only if all listed devices are alike.
    """
    listed = _dicts(document.get("deviceProperties"))
    by_id = {_int(p.get("id")): p for p in listed}
    alike = listed[0] if len({_text(p.get("name")) for p in listed}) == 1 else {}
    keys = ops.select("process", "device").unique(maintain_order=True).sort("process", "device")
    rows = [{**key, **_properties(by_id.get(key["device"], alike))} for key in keys.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=_SCHEMA)


_SCHEMA = {
    "process": pl.Int64, "device": pl.Int64, "uuid": pl.String, "name": pl.String,
    "memory_bytes": pl.Int64, "sm_count": pl.Int64, "compute_capability": pl.String,
}  # fmt: skip


def _properties(listed: dict[str, Any]) -> dict[str, Any]:
    major, minor = _int(listed.get("computeMajor")), _int(listed.get("computeMinor"))
    return {
        "uuid": _text(listed.get("uuid")) or None,
        "name": _text(listed.get("name")) or None,
        "memory_bytes": _int(listed.get("totalGlobalMem")),
        "sm_count": _int(listed.get("numSms")),
        "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
    }


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _int(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if abs(number) < 1 << 63 else None


def _text(value: object) -> str | None:
    return value[:400].encode("utf-8", "replace").decode() if isinstance(value, str) else None
