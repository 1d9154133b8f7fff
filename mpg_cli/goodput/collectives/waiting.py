"""What of communication is waiting: in a collective, all of a rank's time but the last `transfer` ns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals
from mpg_cli.goodput.collectives.transients import transient_indexes

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity

CAUSES = ("communication", "communication_wait", "transient")


def claims(activity: Activity, matched: pl.DataFrame) -> pl.DataFrame:
    """subject, start_ns, end_ns, cause (one of CAUSES) of all communication, made disjoint per subject and cause.

    What could not be matched is communication. Waiting in a collective that ranks entered apart because the profile
    began is transient. Claims of different causes may overlap where kernels run at the same time: a chip that moves
    data on one stream does not wait, so they are to be served in the order of CAUSES.
    """
    cut = cut_records(activity, matched)
    moving = cut.select("subject", start_ns="cut_ns", end_ns="end_ns", cause=pl.lit("communication"))
    waits = pl.when("transient").then(pl.lit("transient")).otherwise(pl.lit("communication_wait"))
    waiting = cut.select("subject", "start_ns", end_ns="cut_ns", cause=waits)
    return intervals.union(pl.concat([moving, waiting]), by=["subject", "cause"]).select(
        "subject", "start_ns", "end_ns", "cause"
    )


def cut_records(activity: Activity, matched: pl.DataFrame) -> pl.DataFrame:
    """All communication records with row, index (null: not matched), transient, and cut_ns: where waiting ends.

    cut_ns lies in [start_ns, end_ns]; it is start_ns where nothing is known of waiting. Of several records of one rank
    for one collective those before the cut wait wholly.
    """
    early = pl.Series(transient_indexes(matched), dtype=matched.schema["index"]).implode()
    parts = matched.select(
        "index", "rows", at=col("end_ns") - col("transfer_ns"), transient=col("index").is_in(early)
    ).explode("rows")
    records = activity.ops.with_row_index("row").filter(col("activity") == "comm")
    joined = records.join(parts, left_on="row", right_on="rows", how="left", maintain_order="left")
    cut = col("at").clip("start_ns", "end_ns").fill_null(col("start_ns"))
    return joined.with_columns(cut_ns=cut, transient=col("transient").fill_null(value=False)).drop("at")
