"""Free chips that the jobs one has cannot use: the measure of fragmentation gradient descent (FGD).

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, section 3. For a node n and the classes m of a workload, each with its share p_m,

    F_n(M) = Σ_m p_m · F_n(m)

where F_n(m) is all that is free on n if a task of class m cannot run there, and else what is free on GPUs with less
free than the task asks for. The index of a cluster is Σ_n F_n(M) ÷ Σ_n free.

`fragment` and `index` are for schedulers that share a GPU among tasks (thousandths of a GPU, exact); `unusable_chips`,
`chip_index` and `over_time` for those that hand out whole chips, which is Slurm's, Kubernetes' and Borg's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import polars as pl
from polars import col

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCALE = 10**9  # shares whose common denominator is larger are rounded to this one
STEPS = {"start_ns": pl.Int64, "end_ns": pl.Int64, "free": pl.Int64, "fragmented": pl.Float64}


@dataclass(frozen=True)
class Node:
    """What is free on a node: thousandths of a CPU, thousandths of each of its GPUs, and what GPUs they are."""

    cpu_milli: int
    gpu_free_milli: tuple[int, ...]
    gpu_type: str | None = None

    @property
    def free_milli(self) -> int:
        """Thousandths of a GPU that are free, over all GPUs."""
        return sum(self.gpu_free_milli)


@dataclass(frozen=True)
class TaskClass:
    """Tasks that ask for the same: `gpus` GPUs of one of `gpu_types` (empty: any), `gpu_milli` thousandths of each.

    share: of all tasks, those of this class. The shares of a workload need not add up to 1: the measure is linear.
    """

    cpu_milli: int
    gpu_milli: int
    gpus: int
    share: Fraction
    gpu_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobClass:
    """Jobs that ask for the same number of whole chips on each of the same number of nodes; share as in TaskClass."""

    chips: int
    nodes: int
    share: Fraction


def unusable(node: Node, task: TaskClass) -> int:
    """F_n(m): thousandths of a GPU that are free on `node` and of no use to a task of the class.

    All of them for a class without GPUs, as in the authors' simulator: it leaves the GPUs alone.
    """
    if not _runs(node, task):
        return node.free_milli
    return sum(free for free in node.gpu_free_milli if free < task.gpu_milli)


def _runs(node: Node, task: TaskClass) -> bool:
    accessible = not task.gpu_types or node.gpu_type in task.gpu_types
    fitting = sum(free >= task.gpu_milli for free in node.gpu_free_milli)
    return accessible and node.cpu_milli >= task.cpu_milli and 0 < task.gpus <= fitting


def fragment(node: Node, tasks: Iterable[TaskClass]) -> Fraction:
    """F_n(M): thousandths of a GPU that are free on `node` and that a task of the workload can on average not use."""
    return sum((task.share * unusable(node, task) for task in tasks), Fraction())


def index(nodes: Iterable[Node], tasks: Sequence[TaskClass]) -> Fraction | None:
    """Σ F_n(M) ÷ Σ free over the nodes; None if nothing is free."""
    fragmented, free = Fraction(), 0
    for node in nodes:
        fragmented += fragment(node, tasks)
        free += node.free_milli
    return fragmented / free if free else None


def unusable_chips(free: int, job: JobClass) -> int:
    """F_n(m) with whole chips: all that is free on a node that has less free than the class asks for per node, else 0.

    What a node would have left after taking as many such jobs as it can (free modulo request) does not count: the
    measure is about the next job. Nor does it matter here on how many nodes at once the class wants to run.
    """
    return free if free < job.chips else 0


def chip_index(free: Iterable[int], jobs: Sequence[JobClass]) -> Fraction | None:
    """Σ F_n(M) ÷ Σ free over nodes with `free` whole chips each; None if nothing is free."""
    fragmented, total = Fraction(), 0
    for chips in free:
        fragmented += sum((job.share * unusable_chips(chips, job) for job in jobs), Fraction())
        total += chips
    return fragmented / total if total else None


def classes(attempts: pl.DataFrame, most: int = 32) -> tuple[JobClass, ...]:
    """The classes of the workload by popularity: the share of jobs that ask for so many chips on so many nodes.

    attempts: chips, node_count (int64), and optionally job, each of which then counts once per class however often it
    was requeued. Pass what was asked for under `chips`, so that jobs that never ran count too. Chips per node are
    rounded up. Rows without chips, or whose node count is not known, have no class. Only the `most` popular classes
    are kept (ties: the larger first), and their shares are of what is kept, as FGD does with its typical pods.
    """
    jobs = col("job").n_unique() if "job" in attempts.columns else pl.len()
    asked = attempts.filter((col("chips") > 0) & (col("node_count") > 0))
    per_node = (col("chips") + col("node_count") - 1) // col("node_count")
    counted = (
        asked.group_by(chips=per_node, nodes=col("node_count"))
        .agg(jobs=jobs)
        .sort("jobs", "chips", "nodes", descending=True)
        .head(most)
    )
    total = sum(counted["jobs"])
    return tuple(JobClass(chips, nodes, Fraction(n, total)) for chips, nodes, n in counted.iter_rows())


def over_time(free: pl.DataFrame, jobs: Sequence[JobClass]) -> pl.DataFrame:
    """How many chips are free and how many of them fragmented, as a step function of time.

    free: node, start_ns, end_ns, free (int64): half-open stretches in which a node has so many whole chips free, at
    most one at a time per node. A node is not free where it has no row.
    Returns start_ns, end_ns, free (int64, chips), fragmented (float64, chips; exact up to that conversion), in order
    and without gaps between the first start and the last end; steps differ from their neighbours. Sorting apart,
    the time it takes is linear in the number of rows and does not depend on the number of classes.
    """
    shares, scale = _scaled(jobs)
    rows = free.filter((col("start_ns") < col("end_ns")) & (col("free") > 0)).select(
        "start_ns", "end_ns", "free"
    )
    if rows.is_empty():
        return pl.DataFrame(schema=STEPS)
    weights = _weights(rows["free"].unique().to_list(), shares, rows.schema["free"])
    rows = rows.join(weights, on="free").with_columns(scaled=col("free") * col("weight"))
    rises = rows.select("free", "scaled", ts="start_ns")
    falls = rows.select(-col("free"), -col("scaled"), ts="end_ns")
    return _steps(pl.concat([rises, falls]), scale)


def _scaled(jobs: Sequence[JobClass]) -> tuple[dict[int, int], int]:
    """By chips per node, the share in whole parts of a scale, and the scale."""
    scale = min(lcm(*(job.share.denominator for job in jobs)), SCALE)
    shares: dict[int, int] = {}
    for job in jobs:
        shares[job.chips] = shares.get(job.chips, 0) + round(job.share * scale)
    return shares, scale


def _weights(values: Iterable[int], shares: dict[int, int], dtype: pl.DataType) -> pl.DataFrame:
    """For each number of free chips, the share of jobs that a node with so many cannot take: free, weight."""
    rows = [(n, sum(share for chips, share in shares.items() if n < chips)) for n in values]
    return pl.DataFrame(rows, schema={"free": dtype, "weight": pl.Int64}, orient="row")


def _steps(changes: pl.DataFrame, scale: int) -> pl.DataFrame:
    """The running sums of free and scaled from one ts to the next; equal neighbours become one."""
    sums = (
        changes.group_by("ts")
        .agg(col("free", "scaled").sum())
        .sort("ts")
        .with_columns(col("free", "scaled").cum_sum())
    )
    before = pl.struct("free", "scaled")
    differs = (before != before.shift()).fill_null(value=True)
    return (
        sums.filter(differs)
        .select(
            start_ns="ts",
            end_ns=col("ts").shift(-1),
            free=col("free").cast(pl.Int64),
            fragmented=col("scaled") / scale,
        )
        .drop_nulls("end_ns")
    )


def mean_index(steps: pl.DataFrame) -> float | None:
    """The index over the whole time of what `over_time` returns: fragmented chip-time ÷ free chip-time.

    So an hour in which a thousand chips are free counts a thousand times as much as one in which one is. None if
    nothing is ever free.
    """
    length = (col("end_ns") - col("start_ns")).cast(pl.Float64)
    fragmented, free = steps.select(
        (col("fragmented") * length).sum().alias("fragmented"), (col("free") * length).sum().alias("free")
    ).row(0)
    return fragmented / free if free else None
