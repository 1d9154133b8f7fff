"""The arguments and options of the commands, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Paths = Annotated[
    list[str],
    typer.Argument(help="Files, folders, quoted globs, archives, label=path, or - for standard input."),
]
Format = Annotated[
    str | None, typer.Option("--format", "-f", help="rich, md or json. Default: rich on a terminal, else md.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write to this file; .md, .json or .txt chooses the format."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
Window = Annotated[
    str | None,
    typer.Option(help="What the account covers: steps (default), device or all activity of a source."),
]
View = Annotated[
    str | None, typer.Option(help="default, or fleet-paper: exposed communication in the program layer.")
]
StepRegex = Annotated[
    str | None, typer.Option(help="Host ranges that are steps, where there is no ProfilerStep.")
]
KeepNames = Annotated[
    bool | None, typer.Option("--keep-names", help="Keep host names and private directories of the trace.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", help="Processes that share one large file; 0: one per core, up to 4."),
]
Nsys = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="NVIDIA's nsys, to export .nsys-rep files (the one on the PATH)."),
]
ChipName = Annotated[
    str | None, typer.Option("--chip", help="The chip, instead of what the trace reports (see mpg hardware).")
]
PgBasis = Annotated[
    str | None, typer.Option("--pg-basis", help="What PG is held against: peak, roofline or achievable.")
]
UsefulTokens = Annotated[
    float | None, typer.Option("--useful-tokens", help="Share of tokens that are not padding, 0 to 1.")
]
FlopsPerStep = Annotated[
    float | None,
    typer.Option("--flops-per-step", help="FLOPs of a step on one device, instead of operator models."),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price", metavar="PRICE", help="What findings cost, e.g. 2.50/chip-hour, in any currency."
    ),
]
JobChips = Annotated[
    int | None,
    typer.Option("--chips", metavar="N", help="Chips of the whole job, to which costs are scaled."),
]
PerStep = Annotated[bool | None, typer.Option("--per-step", help="Every step's account.")]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", help="Break time down by module, op, kernel, stream, XLA category or rank (repeatable)."
    ),
]
Since = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Fleets: where the account begins, ISO 8601.")
]
Until = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Fleets: where it ends.")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="Fleets: what counts as now for jobs that are not over."),
]
Zone = Annotated[
    str | None, typer.Option("--tz", metavar="ZONE", help="Zone of wall times that name none, e.g. UTC.")
]
Capacity = Annotated[
    str | None,
    typer.Option("--capacity", metavar="CHIPS", help="Fleets: chips, as 512 or h100=512,a100=64."),
]
SizeClasses = Annotated[
    str | None,
    typer.Option(
        "--size-classes", metavar="S,M,L", help="Upper bounds in chips of the size classes (8,64,512)."
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="MAPPING", help="Job tables: NAME=COLUMN, a mapping's name or file (repeatable)."
    ),
]
SegmentBy = Annotated[
    list[str] | None,
    typer.Option(
        "--segment-by", metavar="WHAT", help="Fleets: one more segment, e.g. label:team (repeatable)."
    ),
]
Oracle = Annotated[
    list[str] | None,
    typer.Option(
        "--oracle", metavar="FILE", help="Fleets: sreport -P output to reconcile with (repeatable)."
    ),
]
Redact = Annotated[
    bool | None, typer.Option("--redact", help="Fleets: numbers for users, accounts, jobs and nodes.")
]
CacheDir = Annotated[
    str | None,
    typer.Option("--cache", metavar="DIR", help="Where parsed files are kept ($XDG_CACHE_HOME/mpg)."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the cache.")]
Strict = Annotated[bool, typer.Option("--strict", help="Lost, cut or repaired data is an error (status 3).")]
Detail = Annotated[bool, typer.Option("--detail", help="Longer tables.")]
Width = Annotated[int | None, typer.Option(min=40, max=1000, help="Columns of the rich format.")]
Color = Annotated[str, typer.Option(help="auto, always or never.")]
Config = Annotated[Path | None, typer.Option(help="Settings file instead of ./mpg.toml.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no messages but errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Tracebacks.")]
