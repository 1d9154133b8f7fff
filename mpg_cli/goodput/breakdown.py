"""Device time in the windows by stream, kernel, operator, module or category; the account by rank."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from mpg_cli.goodput import intervals, ledger, modules, operators, paths, pricing
from mpg_cli.goodput.runtime import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mpg_cli.goodput.activity import Activity
    from mpg_cli.goodput.taxonomy import Taxonomy
    from mpg_cli.store import Dataset

ACTIVITIES = {"compute": "compute_ns", "comm": "comm_ns", "memory": "memory_ns", "other": "other_ns"}
FIGURE = dict.fromkeys(OTHER, "other")  # the figure that counts an activity
AMOUNTS = ("kernels", "incl_ns", "excl_ns", *ACTIVITIES.values())
SCHEMA = pl.Schema(
    {
        "key": pl.String,
        "parent": pl.String,
        "depth": pl.Int64,
        "count": pl.Int64,
        **dict.fromkeys(AMOUNTS, pl.Int64),
        "share": pl.Float64,
    }
)
NO_LAUNCH = "(launch call not in the file)"
NO_MODULE, NO_OPERATOR, NO_OPERATION = "(no module)", "(no operator)", "(no XLA operation)"
OPS = (
    "subject",
    "source",
    "stream",
    "start_ns",
    "end_ns",
    "kind",
    "name",
    "activity",
    "correlation",
    "external_id",
)
XLA = ("category", "asynchronous")  # only where there are operations of XLA


def break_down(by: str, dataset: Dataset, loaded: Activity, spans: pl.DataFrame) -> pl.DataFrame:
    """One row per key (SCHEMA), most time first: the device activity in `spans` (subject, source, start_ns, end_ns: the
    window of each device) by stream, kernel, op, module or category.

    A record counts with what of it lies in the window. excl_ns sums the records of the key itself and over all rows is
    the sum of all records; incl_ns, and the four by activity that make it up, are with what is nested under the key
    (an operator within one of the same name counts once). `count` is how often the key occurs: records, or the calls
    of an op or module that began in the window. Raises KeyError for another `by`.
    """
    columns = (*OPS, *(name for name in XLA if name in loaded.ops.columns))
    inside = intervals.clip(
        loaded.ops.select(columns), spans.select("subject", "start_ns", "end_ns"), ["subject"]
    )
    # an operation that others ran inside of is one record, however many parts it has
    one = (col.part.fill_null(0) == 0) if "part" in columns else pl.lit(value=True)
    inside = inside.with_columns(ns=col.end_ns - col.start_ns, one=one.cast(pl.Int64))
    rows = BREAKDOWNS[by](dataset, loaded, spans, inside)
    whole = int(inside["ns"].sum())
    share = (col.incl_ns / whole) if whole else pl.lit(0.0)
    used = rows.filter((col.kernels > 0) | (col.incl_ns > 0) | (col.excl_ns > 0) | (col.records > 0))
    used = used.with_columns(share=share).select(SCHEMA.names()).cast(SCHEMA)
    return used.sort("incl_ns", "key", descending=[True, False])


def _sums() -> list[pl.Expr]:
    """records, kernels, excl_ns and the four by activity of a group of records."""
    parts = [
        col.ns.filter(col.activity.cast(pl.String).replace(FIGURE) == activity).sum().alias(name)
        for activity, name in ACTIVITIES.items()
    ]
    kernels = col.one.filter(col.kind == "kernel").sum().alias("kernels")
    return [col.one.sum().alias("records"), kernels, col.ns.sum().alias("excl_ns"), *parts]


def _flat(inside: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Sums by keys that nothing is nested under."""
    rows = inside.group_by(keys).agg(_sums())
    return rows.with_columns(
        incl_ns="excl_ns", count="records", parent=pl.lit(None, pl.String), depth=pl.lit(0, pl.Int64)
    )


def _by_kernel(_: Dataset, __: Activity, ___: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    return _flat(inside, "name").with_columns(key=col.name.cast(pl.String))


def _by_category(_: Dataset, __: Activity, ___: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """By category of the XLA operation; those that run beside the program's own have keys of their own."""
    if not set(XLA) <= set(inside.columns):
        return _flat(inside.with_columns(key=pl.lit(NO_OPERATION)), "key")
    name = col.category.cast(pl.String)
    key = pl.when("asynchronous").then(pl.format("{}, asynchronous", name)).otherwise(name)
    return _flat(inside.with_columns(key=key.fill_null(NO_OPERATION)), "key")


def _by_stream(_: Dataset, loaded: Activity, __: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    rows = _flat(inside, "subject", "stream")
    devices = device_names(loaded)
    stream = pl.format("stream {}", col.stream.cast(pl.String).fill_null("(not recorded)"))
    if len(devices) == 1:
        return rows.with_columns(key=stream)
    device = col.subject.replace_strict(devices, return_dtype=pl.String)
    return rows.with_columns(key=pl.concat_str(device, pl.lit(", "), stream))


def device_names(loaded: Activity) -> dict[int, str]:
    """By subject, what tells it from the others: its rank, else its file; and its device where that has several."""
    owners = loaded.subjects.join(loaded.sources.select("source", "path", "rank"), on="source")
    owners = owners.with_columns(devices=pl.len().over("source")).sort("subject")
    names = {}
    for row in owners.iter_rows(named=True):
        owner = row["path"] if row["rank"] is None else f"rank {row['rank']}"
        process = "" if row["process"] is None else f"process {row['process']} "
        several = row["devices"] > 1
        names[row["subject"]] = f"{owner}, {process}device {row['device']}" if several else owner
    return names


def _by_module(dataset: Dataset, _: Activity, spans: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    found = modules.Modules(dataset)
    calls, tree = paths.fold(found.calls)
    row, launched = found.launching(inside)
    rows = _on_paths(inside.with_columns(row=row, launched=launched), calls, NO_MODULE)
    called = _called(found.calls, spans).join(calls, on="row").group_by("path").agg(count=pl.len())
    return _tree(rows, called, tree)


def _by_op(dataset: Dataset, _: Activity, spans: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    found = operators.load(dataset)
    labels = found.calls.select("call", label="name")
    nodes = found.ops.join(labels, on="call", maintain_order="left")
    calls, tree = paths.fold(nodes.select("row", "parent", "label"))
    rows = _on_paths(pricing.launching_operator(inside, found), calls, NO_OPERATOR)
    called = _called(nodes, spans).group_by(col.label.str.slice(0, paths.MAX_LABEL)).agg(count=pl.len())
    return _names(rows, dict(called.iter_rows()), tree)


def _called(calls: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The calls that began in the window of their source."""
    windows = spans.group_by("source").agg(col.start_ns.min(), col.end_ns.max())
    met = calls.join(windows.rename({"start_ns": "from_ns", "end_ns": "to_ns"}), on="source")
    return met.filter((col.start_ns >= col.from_ns) & (col.start_ns < col.to_ns))


def _on_paths(ops: pl.DataFrame, calls: pl.DataFrame, none: str) -> pl.DataFrame:
    """Sums by path, or by `key` for records under no call; `ops` has row (of the call) and launched."""
    placed = ops.join(calls.cast({"row": ops.schema["row"]}), on="row", how="left")
    key = pl.when(col.path.is_null()).then(
        pl.when("launched").then(pl.lit(none)).otherwise(pl.lit(NO_LAUNCH))
    )
    return placed.with_columns(key=key).group_by("path", "key").agg(_sums())


Amounts = list[int]
SUMS = ("records", "kernels", "excl_ns", *ACTIVITIES.values())


def _amounts(rows: pl.DataFrame) -> dict[int | str, Amounts]:
    """The sums of each path, by its number, and of the records under none, by their key."""
    return {
        key if path is None else path: list(sums)
        for path, key, *sums in rows.select("path", "key", *SUMS).iter_rows()
    }


def _tree(rows: pl.DataFrame, called: pl.DataFrame, tree: pl.DataFrame) -> pl.DataFrame:
    """One row per path, with the sums of all paths below it."""
    own = _amounts(rows)
    whole = {path: [0] * len(SUMS) for path in range(tree.height)}
    above, depths, keys = tree["above"].to_list(), tree["depth"].to_list(), paths.texts(tree)
    for path in reversed(range(tree.height)):
        _add(whole[path], own.get(path, ()))
        if above[path] is not None:
            _add(whole[above[path]], whole[path])
    counts = dict(called.iter_rows())
    found = [
        _row(
            keys[path], counts.get(path, 0), own.get(path), whole[path],
            None if above[path] is None else keys[above[path]], depths[path],
        )
        for path in range(tree.height)
    ]  # fmt: skip
    return _table([*found, *_without(own)])


def _names(rows: pl.DataFrame, called: Mapping[str, int], tree: pl.DataFrame) -> pl.DataFrame:
    """One row per name, with the sums of all paths that lead through it."""
    own = _amounts(rows)
    above, labels = tree["above"].to_list(), tree["label"].to_list()
    mine: defaultdict[str, Amounts] = defaultdict(lambda: [0] * len(SUMS))
    whole: defaultdict[str, Amounts] = defaultdict(lambda: [0] * len(SUMS))
    for path, sums in own.items():
        if isinstance(path, str):
            continue
        _add(mine[labels[path]], sums)
        for name in _chain(path, above, labels):
            _add(whole[name], sums)
    found = [_row(name, called.get(name, 0), mine.get(name), sums) for name, sums in whole.items()]
    return _table([*found, *_without(own)])


def _chain(path: int | None, above: list[int | None], labels: list[str]) -> set[str]:
    names = set()
    while path is not None:
        names.add(labels[path])
        path = above[path]
    return names


def _add(total: Amounts, more: Amounts | tuple[()]) -> None:
    for at, amount in enumerate(more):
        total[at] += amount


def _without(own: Mapping[int | str, Amounts]) -> list[dict[str, object]]:
    return [_row(key, sums[0], sums, sums) for key, sums in own.items() if isinstance(key, str)]


def _row(
    key: str, count: int, own: Amounts | None, whole: Amounts, parent: str | None = None, depth: int = 0
) -> dict[str, object]:
    excl_ns = own[2] if own else 0
    row: dict[str, object] = {"key": key, "parent": parent, "depth": depth, "count": count}
    return row | dict(zip(SUMS, whole, strict=True)) | {"incl_ns": whole[2], "excl_ns": excl_ns}


def _table(rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={**SCHEMA, "records": pl.Int64})


BREAKDOWNS: dict[str, Callable[[Dataset, Activity, pl.DataFrame, pl.DataFrame], pl.DataFrame]] = {
    "stream": _by_stream,
    "kernel": _by_kernel,
    "op": _by_op,
    "module": _by_module,
    "category": _by_category,
}


def by_rank(
    rows: pl.DataFrame, loaded: Activity, taxonomy: Taxonomy, view: str = "default"
) -> dict[str, ledger.Rolled]:
    """The account of each rank, or of each file without one, by its key; the parts sum to the account of all.

    rows: of the ledger (ledger.ROW_SCHEMA), by subject.
    """
    owners = loaded.subjects.join(loaded.sources.select("source", "path", "rank"), on="source")
    owners = owners.select("subject", "rank", key=col.rank.cast(pl.String).fill_null(col.path))
    placed = rows.join(owners, on="subject").sort("rank", "key", nulls_last=True)
    parts = placed.partition_by("key", maintain_order=True, as_dict=True)
    return {str(key): ledger.roll(part, taxonomy, view) for (key,), part in parts.items()}
