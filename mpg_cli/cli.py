"""The commands: options → one call → render. Heavy imports stay inside them, so that --help is instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mpg_cli.options import (
    AsOf,
    By,
    CacheDir,
    Capacity,
    ChipName,
    Color,
    Config,
    Debug,
    Detail,
    FlopsPerStep,
    Force,
    Format,
    JobChips,
    Jobs,
    KeepNames,
    Map,
    NoCache,
    Nsys,
    Oracle,
    Output,
    Paths,
    PerStep,
    PgBasis,
    Price,
    Quiet,
    Redact,
    SegmentBy,
    Since,
    SizeClasses,
    StepRegex,
    Strict,
    Until,
    UsefulTokens,
    View,
    Width,
    Window,
    Zone,
)

app = typer.Typer(
    name="mpg",
    help="Where did the accelerator time go? Accounts for every chip-nanosecond of a trace.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


# parameters whose names are not those of their settings
RENAMED = {"chips": "job_chips", "segment_by": "segment", "map": "mapping", "cache": "cache_dir"}


def _flags(given: dict[str, object]) -> dict[str, object]:
    """The settings among a command's parameters; null where not given."""
    from mpg_cli.config import Settings

    known = Settings.__dataclass_fields__
    named = {RENAMED.get(name, name): value for name, value in given.items()}
    flags = {name: None if value == [] else value for name, value in named.items() if name in known}
    return flags | ({"cache_enabled": False} if given.get("no_cache") else {})


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
    debug: Debug = False,
) -> None:
    """Read traces and logs, and report what the chips did, why they waited, and how far that can be trusted."""
    given = dict(locals())
    from mpg_cli import commands
    from mpg_cli.output import Target

    target = Target.choose(format, output, force=force, width=width, color=color, detail=detail)
    chosen = commands.settings(config, _flags(given), quiet=quiet)
    files = [*paths, *(oracle or [])]
    report = commands.analyze(files, chosen, strict=strict, quiet=quiet, output=target.path)
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
    debug: Debug = False,
) -> None:
    """Read traces and logs into a folder of Parquet tables, for `mpg report` and for your own queries."""
    given = dict(locals())
    from mpg_cli import commands

    settings = commands.settings(config, _flags(given) | {"cache_enabled": False}, quiet=quiet)
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
    debug: Debug = False,
) -> None:
    """Report from a dataset, without parsing anything again."""
    given = dict(locals())
    from mpg_cli import commands
    from mpg_cli.output import Target

    target = Target.choose(format, output, force=force, width=width, color=color, detail=detail)
    chosen = commands.settings(config, _flags(given), quiet=quiet)
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
