"""What the commands do, apart from options and rendering."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpg_cli import config
from mpg_cli.analysis import AnalysisOptions
from mpg_cli.analysis import analyze as analyze_dataset
from mpg_cli.cache import Cache, default_folder
from mpg_cli.fleet.analysis import analyze as analyze_fleet
from mpg_cli.fleet.analysis import combined
from mpg_cli.fleet.options import FleetOptions
from mpg_cli.goodput.idle import IdleRules
from mpg_cli.goodput.judging import ProgramOptions
from mpg_cli.goodput.models import Models
from mpg_cli.goodput.names import NameRules
from mpg_cli.goodput.taxonomy import KILLERS, Cause, load_taxonomy
from mpg_cli.hardware import load as load_catalogue
from mpg_cli.hardware.listing import chip_called, hardware_text
from mpg_cli.ingest import IngestOptions, ingest
from mpg_cli.messages import printable, say
from mpg_cli.process import release_memory
from mpg_cli.progress import progress_on
from mpg_cli.report.model import Price
from mpg_cli.scheduler import records
from mpg_cli.sources import source_notices
from mpg_cli.store import check_target, is_part, open_dataset, write_dataset
from mpg_parsers.errors import InputError, Notice, UsageError
from mpg_parsers.registry import parsers, verdicts
from mpg_parsers.source import expand
from mpg_parsers.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mpg_cli.config import Settings
    from mpg_cli.report.model import Report
    from mpg_cli.store import Dataset
    from mpg_parsers.columns import Table

# warnings that mean that data was lost, cut or altered: errors under --strict
STRICT = (
    "truncated_input", "repaired_input", "dropped_events", "device_records_lost", "duration_overflow",
    "duplicate_events", "unmatched_events", "skipped_files", "event_cap", "bad_row", "no_device_activity",
    "capture_incomplete",
)  # fmt: skip


def settings(path: Path | None, flags: Mapping[str, Any], *, quiet: bool = False) -> Settings:
    """The settings in force. Raises UsageError."""
    return config.load(path, flags, _warn(quiet=quiet))


def analyze(
    paths: Sequence[str], chosen: Settings, *, strict: bool, quiet: bool, output: Path | None = None
) -> Report:
    """Ingest and analyse. Raises InputError; UsageError if `output` is one of the files to read."""
    options, fleet = _options(chosen), FleetOptions.of(chosen)
    with progress_on(quiet=quiet) as progress:
        reading = IngestOptions(
            chosen.keep_names,
            _cache(chosen),
            progress,
            _warn(quiet=quiet),
            chosen.jobs,
            output,
            chosen.nsys or "",
            chosen.tz or "",
            _columns(chosen),
        )
        with ingest(paths, reading) as dataset:
            release_memory()  # parsing leaves much of it in small pieces
            report = _reported(dataset, options, fleet)
    return _checked(report, strict=strict)


def report_on(folder: Path, chosen: Settings, *, strict: bool, output: Path | None = None) -> Report:
    """Analyse a dataset on disk. Raises InputError; UsageError if `output` is a file of the dataset."""
    if output is not None and is_part(folder, output):
        raise UsageError(f"-o {output}: is one of the files to read", hint="choose another name")
    report = _reported(open_dataset(folder), _options(chosen), FleetOptions.of(chosen))
    return _checked(report, strict=strict)


def ingest_to(paths: Sequence[str], folder: Path, chosen: Settings, *, force: bool, quiet: bool) -> None:
    """Write the dataset of what was named to `folder`. Raises InputError, UsageError."""
    check_target(folder, force=force)  # before the work
    with progress_on(quiet=quiet) as progress:
        reading = IngestOptions(
            chosen.keep_names,
            None,
            progress,
            jobs=chosen.jobs,
            nsys=chosen.nsys or "",
            tz=chosen.tz or "",
            columns=_columns(chosen),
        )
        with ingest(paths, reading) as dataset:
            write_dataset(dataset, folder, force=force)
            notices = [*dataset.notices, *source_notices(dataset.scan("sources").collect())]
            count = dataset.count
    if not quiet:
        _say_notices(notices)
        say(f"Wrote {folder} ({count} source{'s' if count != 1 else ''})")


def _reported(dataset: Dataset, options: AnalysisOptions, fleet: FleetOptions) -> Report:
    """The report on the traces of a dataset, on its schedulers' records, or on both."""
    scheduled, traced = records.kinds(dataset)
    if not scheduled:
        return analyze_dataset(dataset, options)
    found = analyze_fleet(dataset, fleet, view=options.view)
    return combined(analyze_dataset(dataset, options), found) if traced else found


def _columns(chosen: Settings) -> tuple[tuple[str, str], ...]:
    """What the user says of the columns of job tables."""
    if not chosen.mapping:
        return ()
    from mpg_parsers.jobtable.mapping import from_flags

    return from_flags(chosen.mapping)


def _say_notices(notices: Sequence[Notice]) -> None:
    for notice in notices:
        place = f"{notice.source}: " if notice.source else ""
        say(f"warning[{notice.kind}]: {place}{notice.message}")


def _warn(*, quiet: bool) -> Callable[[str], None]:
    return lambda text: None if quiet else say(f"warning: {text}")


def _cache(chosen: Settings) -> Cache | None:
    folder = Path(chosen.cache_dir) if chosen.cache_dir else default_folder()
    return Cache(folder, chosen.cache_limit) if chosen.cache_enabled and folder else None


def _options(chosen: Settings) -> AnalysisOptions:
    catalogue = load_catalogue(chosen.chips)
    if chosen.chip:
        chip_called(catalogue, chosen.chip)  # a name that is none is an error before anything is read
    program = ProgramOptions(
        catalogue,
        Models.load(chosen.models),
        chosen.chip,
        chosen.pg_basis,
        chosen.useful_tokens,
        chosen.flops_per_step,
    )
    return AnalysisOptions(
        chosen.window,
        chosen.view,
        chosen.step_regex,
        NameRules.load(chosen.name_rules),
        program,
        IdleRules.load(chosen.idle_rules),
        None if chosen.price is None else Price(chosen.price, chosen.job_chips),
        chosen.per_step,
        chosen.by,
    )


def chips_text(name: str | None, chosen: Settings) -> str:
    """The catalogue, with the user's chips, or one chip in full."""
    return hardware_text(name, load_catalogue(chosen.chips))


def _checked(report: Report, *, strict: bool) -> Report:
    for warning in report.warnings if strict else ():
        if warning.kind in STRICT:
            path = warning.source or report.sources[0].path
            raise InputError(warning.kind, path, warning.message, hint="an error because of --strict")
    return report


def formats_text(path: str | None) -> str:
    """The formats, or every parser's verdict on a file."""
    if path is None:
        width = max(len(parser.name) for parser in parsers())
        return "\n".join(f"{parser.name:{width}}  {parser.description}" for parser in parsers())
    lines = []
    with expand([path]) as expansion:
        for source in expansion.sources:
            for parser, reason in verdicts(source):
                lines.append(f"{source.path}: {parser.name}: {'no: ' + reason if reason else 'yes'}")
        lines += [f"{notice.source}: skipped: {notice.message}" for notice in expansion.notices]
    return "\n".join(printable(line) for line in lines)


def schema_text(name: str | None) -> str:
    """Columns of one table or of all, or the report's JSON Schema."""
    if name == "report":
        import orjson

        from mpg_cli.report.schema import json_schema

        return orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode()
    if name is None:
        return "\n".join(_table_text(table) for table in TABLES.values())
    if name not in TABLES:
        known = (*TABLES, "report")
        close = config.did_you_mean(name, known)
        raise UsageError(f"no table {name!r}{close}", hint=f"known: {', '.join(known)}")
    return _table_text(TABLES[name])


def _table_text(table: Table) -> str:
    lines = [f"{table.name}: {table.row}"]
    for column in table.columns:
        unit = f" [{column.unit}]" if column.unit else ""
        values = f" ({', '.join(column.values)})" if column.values else ""
        null = "" if column.null == "never" else f"; null: {column.null}"
        lines.append(f"  {column.name:18} {column.dtype:8} {column.meaning}{unit}{values}{null}")
    return "\n".join([*lines, ""])


def explain_text(cause_id: str | None) -> str:
    """One cause in full, or a line for each."""
    causes = load_taxonomy().causes
    if cause_id is None:
        return "\n".join(f"{cause.layer:11} {cause.id:20} {cause.meaning}" for cause in causes.values())
    if cause_id not in causes:
        close = config.did_you_mean(cause_id, tuple(causes))
        raise UsageError(f"no cause {cause_id!r}{close}", hint="`mpg explain` lists all causes")
    return _cause_text(causes[cause_id])


def _cause_text(cause: Cause) -> str:
    parts = [
        f"{cause.id} ({cause.layer}): {cause.label}",
        _filled(cause.meaning),
        _filled(cause.measured, "How measured: "),
        _filled(cause.look_at, "Look at: "),
        "\n".join(["Usual fixes:", *(f"  - {fix}" for fix in cause.fixes)]) if cause.fixes else "",
        f"Owner: {cause.owner}\nKiller: {_killer(cause)}",
    ]
    return "\n\n".join(part for part in parts if part)


def _filled(text: str, label: str = "") -> str:
    return textwrap.fill(label + text, 100, break_long_words=False, break_on_hyphens=False)


def _killer(cause: Cause) -> str:
    """Which of the four that practitioners name it belongs to."""
    if cause.killer == "none":
        return f"none of the four ({', '.join(name.replace('_', ' ') for name in KILLERS[:-1])})"
    return cause.killer.replace("_", " ")
