"""Kinds of collectives by name: who waits for whom, and how much data is moved."""

from __future__ import annotations

import polars as pl
from polars import col

POINT_TO_POINT = r"(?i)send_?recv|(^|[^a-z])i?(send|recv)([^a-z]|$)|p2p"
ALL_TO_ALL = r"(?i)all_?to_?all"
ROOTED = (
    r"(?i)broadcast|^_?reduce(_oop)?$|^(gather|scatter)$"
    r"|^nccl(dev)?(kernel_)?reduce(_sum|_prod|_min|_max|_avg|_premul|ring|tree)"
)
TEXTS = ["name", "collective", "linked_op"]
SHORT_NAME = r"^(?:void )?(?:(?:\w+|\(anonymous namespace\)|<unnamed>)::)*(\w+)"
# by NCCL's names (arguments of a collective) and by those of C++ (shapes of an operator)
ELEMENT_BYTES = {
    "Byte": 1, "Char": 1, "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Short": 2, "Half": 2,
    "BFloat16": 2, "Int": 4, "Float": 4, "Long": 8, "Double": 8, "ComplexFloat": 8, "ComplexDouble": 16,
    "unsigned char": 1, "signed char": 1, "bool": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
    "short int": 2, "c10::Half": 2, "c10::BFloat16": 2, "int": 4, "float": 4, "long int": 8, "double": 8,
}  # fmt: skip
MAX_BYTES, MAX_RANKS = 2**40, 2**18  # of one message: more than any device holds, and any job has
# NCCL's arguments give what a rank puts in; nccl-tests' size is the largest buffer: for all-gather what comes out
UNEVEN = r"(?i)all_?to_?allv"
ALL_GATHER = r"(?i)all_?gather"
TWO_WAY = r"(?i)all_?reduce"
SHARED = r"(?i)reduce_?scatter|all_?gather|all_?to_?all"
WHOLE = r"(?i)broadcast|^_?reduce(_oop)?$|^i?(send|recv)$"


def described(records: pl.DataFrame) -> pl.DataFrame:
    """`records` with short (the collective's name: that of its arguments, else the kernel's without its types) and
    mutual (Boolean: every rank needs the data of every other, so that all wait for the last).

    Millions of records share a few names: the regular expressions run once per name.
    """
    texts = records.select(TEXTS).unique(maintain_order=True)
    plain = texts.cast({pl.Categorical: pl.String})
    short = pl.coalesce("collective", col("name").str.extract(SHORT_NAME), "name")
    verdicts = plain.select(short=short, mutual=_mutual(short))
    known = pl.concat([texts, verdicts], how="horizontal")
    return records.join(known, on=TEXTS, how="left", nulls_equal=True, maintain_order="left")


def _mutual(short: pl.Expr) -> pl.Expr:
    all_to_all = col("linked_op").str.contains(ALL_TO_ALL).fill_null(value=False)
    unnamed = col("collective").is_null() & col("name").str.contains(POINT_TO_POINT)
    one_to_one = unnamed | (col("collective").is_not_null() & short.str.contains(POINT_TO_POINT))
    return (~one_to_one | all_to_all) & ~short.str.contains(ROOTED)


def message_bytes(size: pl.Expr) -> pl.Expr:
    """The size of the message as nccl-tests define it (doc/PERFORMANCE.md), from in_elements, element_type and short.

    `size` is the number of ranks in the group, which all-gather needs. Null where an operand is unknown or beyond
    belief, and for all_to_allv: its parts differ in size, which nccl-tests have no case for.
    """
    width = col("element_type").replace_strict(ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    gathered = col("short").str.contains(ALL_GATHER)
    parts = pl.when(gathered).then(size).when(~col("short").str.contains(UNEVEN)).then(1)
    credible = col("in_elements").is_between(0, MAX_BYTES) & parts.is_between(1, MAX_RANKS)
    message = pl.when(credible).then(col("in_elements") * width * parts)
    return pl.when(message <= MAX_BYTES).then(message)


def bus_factor(size: pl.Expr, name: pl.Expr) -> pl.Expr:
    """Bus bandwidth over algorithm bandwidth as nccl-tests define it (doc/PERFORMANCE.md), by a collective's name.

    All-reduce 2(n-1)/n; reduce-scatter, all-gather, all-to-all (n-1)/n; broadcast, reduce, send, receive 1. Null for
    any other, and where the number of ranks n is unknown.
    """
    ranks = pl.when(size >= 1).then(size)
    share = (ranks - 1) / ranks
    return (
        pl.when(name.str.contains(TWO_WAY)).then(2 * share)
        .when(name.str.contains(SHARED)).then(share)
        .when(name.str.contains(WHOLE)).then(pl.lit(1.0))
    )  # fmt: skip
