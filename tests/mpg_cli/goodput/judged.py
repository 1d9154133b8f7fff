"""Traces small enough to price on paper, and chips with round figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_cli import hardware
from mpg_cli.goodput import activity, judging, operators, pricing
from mpg_cli.goodput.chips import find_chips
from mpg_cli.goodput.costing import batch_annotations
from mpg_cli.goodput.models import Models
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.windows import find_steps, find_windows
from tests.mpg_cli.datasets import Row, dataset, host, op, source
from tests.mpg_cli.goodput.models.calls import bf, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mpg_cli.store import Dataset

RULES = NameRules.load()
# 1 bf16 TFLOP/s is 1000 FLOP/ns, 100 GB/s are 100 bytes/ns
TINY = {"name": "Tiny", "vendor": "Acme", "bandwidth-gbps": 100, "matrix": {"bf16": 1}} | {
    "achievable": [{"dtype": "bf16", "tflops": 0.5}]
}
TENSOR = {"name": "Tensor", "bandwidth-gbps": 100, "matrix": {"bf16": 1, "tf32": 0.5, "int8": 2}} | {
    "vector": {"fp32": 0.1}
}
BLIND = {"name": "Blind", "matrix": {"bf16": 2}, "vector": {"fp32": 0.2}}
CATALOGUE = hardware.load([TINY, TENSOR, BLIND])
MM = (bf(10, 10), bf(10, 10))  # 2000 FLOP, 600 bytes: on Tiny 2 ns, roofline 6 ns
ADD = (bf(10, 10), bf(10, 10), "1")  # 600 bytes


def operator(start: int, dur: int, name: str, *arguments: Any, **more: Any) -> Row:
    dims, types, concrete = record(arguments)
    shapes = {"input_dims": dims, "input_types": types, "concrete_inputs": concrete}
    return host(start, dur, name, "op", **({} if not arguments else shapes) | more)


def launch(at: int, correlation: int | None, name: str = "cudaLaunchKernel", **more: Any) -> Row:
    return host(at, 1, name, "runtime", correlation=correlation, **more)


def kernel(start: int, dur: int, external_id: int | None = None, name: str = "sgemm", **more: Any) -> Row:
    return op(start, dur, name, external_id=external_id, **more)


def file(ops: Sequence[Row], events: Sequence[Row], chip: str = "Tiny", **about: Any) -> dict[str, Any]:
    made = source(ops, events=events, **about)
    for row in made["devices"]:
        row["name"] = chip
    return made


def product(start: int, dur: int, id_: int = 1) -> tuple[Row, Row]:
    """An mm and its one kernel."""
    return operator(start, 1, "aten::mm", *MM, external_id=id_), kernel(start, dur, id_)


def price(*files: Mapping[str, Any], basis: str = "peak", models: Sequence[Mapping[str, object]] = ()) -> Any:
    """The priced kernels in order of start, with the name of the operator charged."""
    made = dataset(*files)
    loaded, nested = activity_of(made), operators.load(made)
    options = judging.ProgramOptions(CATALOGUE, Models.load(models))
    chips, reason = find_chips(made, loaded, options.catalogue, options.chip)
    assert not reason
    annotations = batch_annotations(made.scan("host_events"))
    priced = pricing.price(loaded.ops, nested, annotations, chips, options.models, basis)
    return priced.kernels.sort("source", "start_ns", "stream")


def activity_of(made: Dataset) -> activity.Activity:
    return activity.load(made, made.scan("sources").collect(), RULES)


def judge(
    *files: Mapping[str, Any], models: Sequence[Mapping[str, object]] = (), **options: Any
) -> judging.Judged:
    """The program layer over the windows that an analysis would take."""
    made = dataset(*files)
    loaded = activity_of(made)
    windows = find_windows(loaded, find_steps(made, None), "steps").by_source
    spans = loaded.subjects.select("subject", "source").join(windows, on="source").sort("subject")
    return judging.judge(
        made, loaded, spans, judging.ProgramOptions(CATALOGUE, Models.load(models), **options)
    )


def causes(judged: judging.Judged) -> dict[str, int]:
    assert judged.rows is not None
    return dict(judged.rows.group_by("cause").agg(pl.col("chip_ns").sum()).iter_rows())


def told(judged: judging.Judged) -> dict[str, str]:
    return {notice.kind: notice.message for notice in judged.notices}


def products(*durations: int, chip: str = "Tiny", **about: Any) -> dict[str, Any]:
    """Products one after the other, 100 ns apart."""
    events, ops = zip(*(product(100 * i, dur, i + 1) for i, dur in enumerate(durations)), strict=True)
    return file(ops, events, chip, **about)


def with_opaque(modelled: int, opaque: int, name: str = "acme::moe", **more: Any) -> dict[str, Any]:
    """A product, and a kernel of an operator without a model."""
    event, ran = product(0, modelled)
    return file([ran, kernel(500, opaque, 9)], [event, operator(500, 9, name, external_id=9, **more)])
