"""`.ncu-rep` files through NVIDIA's own reader, the optional package ncu-report.

Its native code runs in this process: it is called only for files that begin with the format's magic bytes.
"""

from __future__ import annotations

import importlib
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpg_parsers.containers import writing
from mpg_parsers.errors import InputError
from mpg_parsers.ncu.launches import DISPLAY_NAME, Launch, wanted
from mpg_parsers.ncu.values import exact_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.ncu.values import Value
    from mpg_parsers.source import Source

MAGIC = b"NVR\0"
PACKAGE = "ncu_report"
COPY = 1 << 22


def launches(source: Source) -> Iterator[Launch]:
    """The launches of a report. Raises InputError: needs_export (without the package), corrupt_input."""
    module = _module(source.path)
    with tempfile.TemporaryDirectory(prefix="mpg-") as folder:
        file = Path(folder) / "report.ncu-rep"
        _copy(source, file)
        try:
            context = module.load_report(str(file))
        except Exception as error:  # whatever the extension raises
            message = f"ncu-report cannot read it: {error}"[:300]
            raise InputError("corrupt_input", source.path, message, hint=_hint(source.path)) from error
        number = 0
        for results in context:
            for action in results:
                if _is_kernel(action):
                    yield _launch(action, number)
                number += 1


def _module(path: str) -> Any:  # noqa: ANN401 - the package ships no types and need not be installed
    try:
        return importlib.import_module(PACKAGE)
    except ImportError as error:
        message = "a binary Nsight Compute report, which needs NVIDIA's reader"
        raise InputError("needs_export", path, message, hint=_hint(path)) from error


def _hint(path: str) -> str:
    return f"ncu --import {path} --csv --page raw > report.csv, or pip install 'mpg-cli[ncu]'"


def _copy(source: Source, target: Path) -> None:
    """Unpacked and out of its archive: the package opens files only."""
    with source.open() as stream, writing(source.path, target.parent), target.open("wb") as file:
        while more := stream.read(COPY):
            file.write(more)


def _is_kernel(action: Any) -> bool:  # noqa: ANN401
    """Not the result of a range or a graph, which have no launch of their own."""
    kind = getattr(action, "workload_type", None)
    return kind is None or kind() == action.WorkloadType_KERNEL


def _launch(action: Any, number: int) -> Launch:  # noqa: ANN401
    names = set(action.metric_names())

    def number_of(metric: str) -> int | None:
        value = action[metric].value() if metric in names else None
        return int(value) if isinstance(value, int | float) and math.isfinite(value) else None

    major, minor = (number_of(f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
    metrics = {name: value for name in names if wanted(name) and (value := _value(action[name])) is not None}
    return Launch(
        number,
        str(action.name(action.NameBase_DEMANGLED)),
        device=number_of("launch__device_id"),
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
        device_name=str(action[DISPLAY_NAME].value()) if DISPLAY_NAME in names else None,
        metrics=metrics,
    )


def _value(metric: Any) -> Value | None:  # noqa: ANN401
    amount = metric.value()
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount):
        return None
    return exact_value(float(amount), str(metric.unit()))
