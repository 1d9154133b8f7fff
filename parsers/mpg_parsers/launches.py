"""What joins launch calls to device work."""

from __future__ import annotations

import polars as pl

OF_PROCESS = 1 << 32
# what copies are called that a page fault or the driver's foresight starts: no call launches them
MIGRATION = "Unified memory migration"


def in_file(process: pl.Expr, correlation: pl.Expr) -> pl.Expr:
    """Correlation ids of several processes, each of which counts its own 32 bits, as ids unique within the file.

    (process << 32) | id; null for the ids 0 and null, which are none. A process of 0 or null is one not stated.
    """
    own = correlation & (OF_PROCESS - 1)
    return pl.when(own != 0).then(process.fill_null(0) * OF_PROCESS + own)
