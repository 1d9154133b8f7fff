"""Entries of the catalogue, shipped or a user's [[chip]] tables, as checked chips."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from mpg_cli.hardware.chip import Chip, Peak, Unit
from mpg_cli.hardware.dtypes import DTYPES, dtype_name
from mpg_parsers.errors import UsageError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = (
    *("name", "vendor", "device", "devices_per_package", "aliases", "compute_capability", "units"),
    *("memory_gb", "bandwidth_gbps", "matrix", "vector", "achievable"),
    *("interconnect", "source", "sources", "note"),
)
_UNITS: tuple[Unit, ...] = ("matrix", "vector")
_LARGEST = Decimal(10**6)  # TFLOP/s or GB/s; rates per second then fit 64 bits, and so do times at them
_SMALLEST = Decimal("0.001")
_FINEST = -9  # decimals: rates per second stay integers


def chip_from(entry: Mapping[str, Any], where: str) -> Chip:
    """The chip that a table of catalogue.toml or a [[chip]] table of the settings describes.

    Raises UsageError, naming the entry and the key, for an unknown key or operand type and for a bad value.
    """
    _check_keys(entry, where)
    sources = _table(entry.get("sources", {}), f"{where}: sources")
    default = _text(entry, "source", where)

    def source(figure: str) -> str:
        return str(sources.get(figure, default))

    return Chip(
        name=name_of(entry, where),
        vendor=_text(entry, "vendor", where),
        device=_text(entry, "device", where),
        devices_per_package=_count(entry, "devices_per_package", where) or 1,
        aliases=_aliases(entry, where),
        compute_capability=_capability(entry, where),
        units=_count(entry, "units", where),
        memory_gb=_optional(entry, "memory_gb", where),
        bandwidth_gbps=_optional(entry, "bandwidth_gbps", where),
        peaks=tuple(
            Peak(dtype, unit, rate, source(f"{unit}.{dtype}"))
            for unit in _UNITS
            for dtype, rate in _rates(entry.get(unit, {}), f"{where}: {unit}").items()
        ),
        measured=_measured(entry.get("achievable", []), default, f"{where}: achievable"),
        interconnect=_text(entry, "interconnect", where),
        note=_text(entry, "note", where),
        memory_source=source("memory_gb"),
        bandwidth_source=source("bandwidth_gbps"),
    )


def overlay(base: Mapping[str, Any], entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`base` with what `entry` states in its place; rates by operand type, aliases in addition.

    The figures that `entry` states have its source.
    """
    own = entry.get("source", "")
    given = [key for key in ("memory_gb", "bandwidth_gbps") if key in entry]
    merged = {**base, **entry, "source": base["source"]}
    for unit in _UNITS:
        rates = _rates(entry.get(unit, {}), f"{where}: {unit}")
        merged[unit] = {**base.get(unit, {}), **rates}
        given += [f"{unit}.{dtype}" for dtype in rates]
    if "achievable" in entry:
        merged["achievable"] = [{"source": own, **row} for row in _tables(entry["achievable"], where)]
    stated = _table(entry.get("sources", {}), f"{where}: sources")
    merged["sources"] = {**base.get("sources", {}), **dict.fromkeys(given, own), **stated}
    merged["aliases"] = [*base.get("aliases", ()), *_aliases(entry, where)]
    return merged


def name_of(entry: Mapping[str, Any], where: str) -> str:
    """The entry's name. Raises UsageError without one."""
    name = _text(entry, "name", where)
    if not name:
        raise UsageError(f"{where}: a chip needs a name", hint='name = "…"')
    return name


def _check_keys(entry: Mapping[str, Any], where: str) -> None:
    for key in entry:
        if key not in KEYS:
            raise UsageError(
                f"{where}: unknown key {shown(key)}{_near(key, KEYS)}", hint=f"known: {', '.join(KEYS)}"
            )


def _near(name: str, names: tuple[str, ...]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _table(content: object, where: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UsageError(f"{where}: expected a table, got {shown(content)}")
    return content


def _tables(content: object, where: str) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        raise UsageError(f"{where}: expected a list of tables with dtype and tflops, got {shown(content)}")
    return [_table(row, where) for row in content]


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"{where}: {key}: expected a text, got {shown(value)}")
    return value.strip()


def _aliases(entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    value = entry.get("aliases", [])
    if not isinstance(value, list | tuple) or not all(
        isinstance(alias, str) and alias.strip() for alias in value
    ):
        raise UsageError(f"{where}: aliases: expected a list of names, got {shown(value)}")
    return tuple(value)


def _capability(entry: Mapping[str, Any], where: str) -> str | None:
    value = _text(entry, "compute_capability", where)
    if value and not re.fullmatch(r"\d{1,3}\.\d{1,3}", value):
        raise UsageError(f'{where}: compute_capability: expected e.g. "9.0", got {shown(value)}')
    return value or None


def _count(entry: Mapping[str, Any], key: str, where: str) -> int | None:
    value = entry.get(key)
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 10**6
    ):
        raise UsageError(f"{where}: {key}: expected a whole number above zero, got {shown(value)}")
    return value


def _optional(entry: Mapping[str, Any], key: str, where: str) -> Decimal | None:
    return _figure(entry[key], f"{where}: {key}") if key in entry else None


def _figure(value: object, where: str) -> Decimal:
    """A figure above zero, as the decimal number that was written."""
    try:
        figure = Decimal(str(value)) if isinstance(value, int | float | Decimal) else Decimal("NaN")
    except (InvalidOperation, ValueError):  # a whole number of thousands of digits
        figure = Decimal("NaN")
    exponent = figure.as_tuple().exponent
    if not (
        isinstance(exponent, int) and exponent >= _FINEST and _SMALLEST <= figure <= _LARGEST
    ) or isinstance(value, bool):
        raise UsageError(
            f"{where}: expected a number from 0.001 to 1000000 with at most 9 decimals, got {shown(value)}"
        )
    return figure


def _rates(content: object, where: str) -> dict[str, Decimal]:
    """TFLOP/s by canonical operand type."""
    rates: dict[str, Decimal] = {}
    for key, value in _table(content, where).items():
        dtype = _dtype(key, where)
        if dtype in rates:
            raise UsageError(f"{where}: {dtype} is given twice")
        rates[dtype] = _figure(value, f"{where}: {key}")
    return rates


def _dtype(name: object, where: str) -> str:
    dtype = dtype_name(name) if isinstance(name, str) else None
    if dtype is None:
        near = _near(str(name), DTYPES)
        raise UsageError(
            f"{where}: unknown operand type {shown(name)}{near}", hint=f"known: {', '.join(DTYPES)}"
        )
    return dtype


def _measured(content: object, source: str, where: str) -> tuple[Peak, ...]:
    return tuple(
        Peak(
            _dtype(row.get("dtype"), where),
            "matrix",
            _figure(row.get("tflops"), f"{where}: tflops"),
            _text(row, "source", where) or source,
        )
        for row in _tables(content, where)
    )
