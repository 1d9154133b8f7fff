"""Ranges that a program pushes for a profiler to see (NVTX, ROCTx), and what PyTorch writes into them."""

from __future__ import annotations

import polars as pl

# torch.autograd.profiler.emit_nvtx: name[, seq = N][, op_id = N][, sizes = [[..], ..]][, input_op_ids = ..]
OPERATOR = (
    r"^(?P<name>[^,]+)(?:, seq = (?P<seq>\d{1,18}))?(?:, op_id = (?P<op_id>\d{1,18}))?"
    r"(?:, sizes = (?P<sizes>\[[\d, \[\]]*\]))?(?:, input_op_ids = .*)?$"
)
MARK = r"^(?:aten|c10d)::|, (?:seq|op_id|sizes) = "  # older ones write the bare name


def operators(ranges: pl.DataFrame) -> pl.DataFrame:
    """`ranges` (name and other columns of host_events) with PyTorch's operators as such, in order.

    "aten::mm, op_id = 3, sizes = [[2, 2], [2, 2]]" becomes the op aten::mm with external_id and input_dims.
    """
    if not ranges["name"].str.contains(MARK).any():
        return ranges
    parts = pl.col("name").str.extract_groups(OPERATOR).struct
    known = pl.col("name").str.contains(MARK) & parts.field("name").is_not_null()
    return ranges.with_columns(
        kind=pl.when(known).then(pl.lit("op")).otherwise("kind"),
        name=pl.when(known).then(parts.field("name")).otherwise("name"),
        sequence=pl.when(known).then(parts.field("seq")).cast(pl.Int64),
        external_id=pl.when(known).then(parts.field("op_id")).cast(pl.Int64),
        input_dims=pl.when(known).then(parts.field("sizes")),
    )
