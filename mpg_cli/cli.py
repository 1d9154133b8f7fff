"""The commands: options → one call → render. Heavy imports stay inside them, so that --help is instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="mpg",
    help="Where did the accelerator time go? Accounts for every chip-nanosecond of a trace.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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


def _version(value: bool) -> None:  # noqa: FBT001 - Typer calls it so
    if value:
        from mpg_cli import __version__

        typer.echo(f"mpg {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Where did the accelerator time go? Accounts for every chip-nanosecond of a trace."""


@app.command()
def analyze(  # noqa: PLR0913 - one parameter per option
    paths: Paths,
    *,
    format: Format = None,  # noqa: A002 - the option's name
    output: Output = None,
    force: Force = False,
    window: Window = None,
    view: View = None,
    step_regex: StepRegex = None,
    chip: ChipName = None,
    pg_basis: PgBasis = None,
    useful_tokens: UsefulTokens = None,
    flops_per_step: FlopsPerStep = None,
    price: Price = None,
    chips: JobChips = None,
    per_step: PerStep = None,
    by: By = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    tz: Zone = None,
    capacity: Capacity = None,
    size_classes: SizeClasses = None,
    segment_by: SegmentBy = None,
    redact: Redact = None,
    map: Map = None,  # noqa: A002
    oracle: Oracle = None,
    keep_names: KeepNames = None,
    jobs: Jobs = None,
    nsys: Nsys = None,
    cache: CacheDir = None,
    no_cache: NoCache = False,
    strict: Strict = False,
    detail: Detail = False,
    width: Width = None,
    color: Color = "auto",
    config: Config = None,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001 - read by main()
) -> None:
    """Read traces and report what the chips did, why they waited, and how far that can be trusted."""
    from mpg_cli import commands
    from mpg_cli.output import Target

    target = Target.choose(format, output, force=force, width=width, color=color, detail=detail)
    flags: dict[str, object] = {
        "window": window,
        "view": view,
        "step_regex": step_regex,
        "keep_names": keep_names,
        "jobs": jobs,
        "nsys": nsys,
    }
    flags |= {
        "chip": chip,
        "pg_basis": pg_basis,
        "useful_tokens": useful_tokens,
        "flops_per_step": flops_per_step,
    }
    flags |= {"price": price, "job_chips": chips, "per_step": per_step, "by": by or None}
    flags |= {"since": since, "until": until, "as_of": as_of, "tz": tz, "capacity": capacity}
    flags |= {"size_classes": size_classes, "segment": segment_by or None, "redact": redact}
    flags["mapping"] = map or None
    flags |= {"cache_dir": cache, "cache_enabled": False if no_cache else None}
    chosen = commands.settings(config, flags, quiet=quiet)
    report = commands.analyze(
        [*paths, *(oracle or [])], chosen, strict=strict, quiet=quiet, output=target.path
    )
    target.write(report, quiet=quiet)


@app.command()
def ingest(  # noqa: PLR0913
    paths: Paths,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the dataset to.")],
    force: Force = False,
    keep_names: KeepNames = None,
    jobs: Jobs = None,
    nsys: Nsys = None,
    tz: Zone = None,
    map: Map = None,  # noqa: A002
    config: Config = None,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Read traces into a folder of Parquet tables, for `mpg report` and for your own queries."""
    from mpg_cli import commands

    flags: dict[str, object] = {"keep_names": keep_names, "jobs": jobs, "nsys": nsys, "cache_enabled": False}
    flags |= {"tz": tz, "mapping": map or None}
    settings = commands.settings(config, flags, quiet=quiet)
    commands.ingest_to(paths, output, settings, force=force, quiet=quiet)


@app.command()
def report(  # noqa: PLR0913
    dataset: Annotated[Path, typer.Argument(help="A folder written by mpg ingest.")],
    *,
    format: Format = None,  # noqa: A002
    output: Output = None,
    force: Force = False,
    window: Window = None,
    view: View = None,
    step_regex: StepRegex = None,
    chip: ChipName = None,
    pg_basis: PgBasis = None,
    useful_tokens: UsefulTokens = None,
    flops_per_step: FlopsPerStep = None,
    price: Price = None,
    chips: JobChips = None,
    per_step: PerStep = None,
    by: By = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    tz: Zone = None,
    capacity: Capacity = None,
    size_classes: SizeClasses = None,
    segment_by: SegmentBy = None,
    redact: Redact = None,
    strict: Strict = False,
    detail: Detail = False,
    width: Width = None,
    color: Color = "auto",
    config: Config = None,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Report from a dataset, without parsing anything again."""
    from mpg_cli import commands
    from mpg_cli.output import Target

    target = Target.choose(format, output, force=force, width=width, color=color, detail=detail)
    flags: dict[str, object] = {"window": window, "view": view, "step_regex": step_regex}
    flags |= {
        "chip": chip,
        "pg_basis": pg_basis,
        "useful_tokens": useful_tokens,
        "flops_per_step": flops_per_step,
    }
    flags |= {"price": price, "job_chips": chips, "per_step": per_step, "by": by or None}
    flags |= {"since": since, "until": until, "as_of": as_of, "tz": tz, "capacity": capacity}
    flags |= {"size_classes": size_classes, "segment": segment_by or None, "redact": redact}
    chosen = commands.settings(config, flags, quiet=quiet)
    target.write(commands.report_on(dataset, chosen, strict=strict, output=target.path), quiet=quiet)


@app.command()
def formats(
    path: Annotated[
        str | None, typer.Argument(help="Say which parser takes this, and why the others do not.")
    ] = None,
    *,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """List the formats mpg reads, or what it makes of a file."""
    from mpg_cli import commands

    _echo(commands.formats_text(path))


@app.command()
def schema(
    table: Annotated[
        str | None, typer.Argument(help="A table's name, or report for the JSON Schema.")
    ] = None,
    *,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Print the columns of a table, all tables, or the JSON Schema of the report."""
    from mpg_cli import commands

    _echo(commands.schema_text(table))


@app.command()
def hardware(
    name: Annotated[str | None, typer.Argument(help="A chip, for all its figures with sources.")] = None,
    *,
    config: Config = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """List the chips mpg knows, or one chip's peaks, bandwidth and where the figures come from."""
    from mpg_cli import commands

    _echo(commands.chips_text(name, commands.settings(config, {})))


@app.command()
def explain(
    cause: Annotated[str | None, typer.Argument(help="A cause of the ledger, e.g. communication.")] = None,
    *,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Say what a cause means, where to look and what usually helps."""
    from mpg_cli import commands

    _echo(commands.explain_text(cause))


def _echo(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
