"""Writes the parts of the documentation that the code knows better: `python docs/generate.py [--check]`.

A Markdown file marks such a part with `<!-- generated: NAME -->` and `<!-- end generated -->`; NAME is a key
of REGIONS. With --check nothing is written, and the status is 1 if a file is not current.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import textwrap
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

import mpg_cli.__main__
from mpg_cli import cache, config
from mpg_cli.cli import app
from mpg_cli.fleet.next_time import COLUMNS
from mpg_cli.goodput.models import inductor, registry
from mpg_cli.goodput.quality import WARNING_GRADES
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.report.schema import json_schema
from mpg_cli.rows.scheduling import WAIT_LABELS
from mpg_parsers import containers, paths, streams
from mpg_parsers.chrome import blocks, reader, repair
from mpg_parsers.kineto import frames
from mpg_parsers.tables import TABLES

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    "README.md", "docs/metrics.md", "docs/models.md", "docs/formats.md", "docs/schema.md", "docs/cli.md",
    "docs/fleets.md",
)  # fmt: skip
REGION = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end generated -->)", re.DOTALL)
DEMO = ("analyze", "fixtures/train_2rank", "--format", "rich", "--width", "100")
FLEET = ("analyze", "fixtures/fleet/heron", "--tz", "UTC", "--format", "rich", "--width", "100")
YEAR_NS = 365.25 * 86_400 * 1e9


def commands() -> str:
    """Every command with its arguments and options, from the Typer app."""
    root: Any = get_command(app)
    return "\n".join(_command(name, command) for name, command in root.commands.items())


def _command(name: str, command: Any) -> str:  # noqa: ANN401 - Typer brings its own copy of Click
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([f"mpg {name}", *map(_usage, arguments), "[OPTIONS]"])
    parts = [f"### mpg {name}\n", f"{command.help}\n", f"    {usage}\n"]
    rows = [(f"`{p.name.upper()}`", p.help) for p in arguments] + [(_names(p), _meaning(p)) for p in options]
    return "\n".join([*parts, table(("argument or option", "meaning"), rows)])


def _usage(argument: Any) -> str:  # noqa: ANN401
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:  # noqa: ANN401
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _meaning(option: Any) -> str:  # noqa: ANN401
    default = "" if option.default in (None, False) else f" Default: {option.default}."
    return f"{option.help}{' Required.' if option.required else default}"


def settings() -> str:
    """The settings file, as config.py describes it."""
    lines = (config.__doc__ or "").split("\n\n", 1)[1].split("\n")
    example = "\n".join(takewhile(lambda line: not line or line.startswith("    "), lines))
    return f"```toml\n{textwrap.dedent(example).strip()}\n```\n"


def environment() -> str:
    """The environment variable of each setting."""
    rows = [(f"`{variable}`", f"`{key}`") for key, (_, variable) in config.KEYS.items()]
    return table(("variable", "the same as"), rows)


def statuses() -> str:
    """The exit statuses, as __main__.py lists them."""
    text = " ".join((mpg_cli.__main__.__doc__ or "").split("\n\n")[1].split()).rstrip(".")
    return table(("status", "meaning"), (part.split(" ", 1) for part in text.split("; ")))


def cache_limits() -> str:
    """The numbers of the cache."""
    small, limit, days = cache.MIN_SIZE >> 20, cache.DEFAULT_LIMIT >> 30, cache.ABANDONED / 86_400
    return (
        f"- Files under {small} MiB are not cached: they are read faster than they are looked up.\n"
        f"- The folder holds at most {limit} GiB (`cache.limit`); the entries used longest ago go first.\n"
        f"- What an interrupted run left behind is removed after {days:g} day.\n"
    )


def limits() -> str:
    """The bounds on what a file may ask for."""
    rows = (
        ("one event that is still open", f"{_mib(reader.MAX_PENDING)}; a longer one counts as damaged"),
        ("a stretch without the end of an event", _mib(blocks.MAX_BLOCK)),
        (
            "metadata before the events, and after them",
            f"{_mib(blocks.MAX_HEAD)} and {_mib(reader.MAX_TAIL)}",
        ),
        (
            "an event that is repaired",
            f"{repair.MAX_LENGTH >> 10} KiB, {repair.MAX_DEPTH} levels, {repair.MAX_READINGS} readings tried",
        ),
        ("files in a folder or archive", f"{paths.MAX_FILES:,}".replace(",", " ")),
        ("the directory of an archive, or one header in it", _mib(containers.MAX_DIRECTORY)),
        (
            "levels of gzip",
            f"{streams.GZIP_LEVELS}; archives inside archives are skipped with a warning",
        ),
        ("times", f"within ±2^62 ns, about {frames.NS_LIMIT / YEAR_NS:.0f} years"),
    )
    return table(("what", "at most"), rows)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def hardware() -> str:
    """The chips of the catalogue, as `mpg hardware` lists them."""
    return f"```console\n$ mpg hardware\n{run_mpg('hardware').rstrip()}\n```\n"


def models() -> str:
    """What the models count, in their own words, and the operators they are of."""
    return "\n".join(_family(family) for family in (*registry.FAMILIES, inductor))


def _family(family: types.ModuleType) -> str:
    title = family.__name__.rpartition(".")[2]
    patterns = [f"`{pattern.pattern}`" for pattern, _ in getattr(family, "PATTERNS", ())]
    by_package: dict[str, list[str]] = {}
    for name in sorted(getattr(family, "OPS", ())):
        package, _, operator = name.rpartition("::")
        by_package.setdefault(package, []).append(f"`{operator}`")
    lines = [f"`{package}::` {', '.join(names)}" for package, names in by_package.items()]
    lines += [f"names that match {', '.join(patterns)}"] if patterns else []
    operators = "\n".join(_wrapped(f"- {line}") for line in lines)
    return f"### {title}\n\n{inspect.cleandoc(family.__doc__ or '')}\n\n{operators}\n"


def _wrapped(line: str) -> str:
    return textwrap.fill(line, 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def causes() -> str:
    """The causes of the ledger."""
    rows = ((cause.layer, f"`{cause.id}`", cause.meaning) for cause in load_taxonomy().causes.values())
    return table(("layer", "cause", "meaning"), rows)


def grades() -> str:
    """Which warnings cap the grade."""
    rows = ((f"`{kind}`", letter, why) for kind, (letter, why) in WARNING_GRADES.items())
    return table(("warning", "at best", "reason shown"), rows)


def tables() -> str:
    """The canonical tables."""
    parts = []
    for each in TABLES.values():
        rows = [
            (
                f"`{c.name}`",
                c.dtype,
                c.unit,
                c.meaning + _values(c.values),
                "" if c.null == "never" else c.null,
            )
            for c in each.columns
        ]
        parts += [
            f"### {each.name}\n",
            f"A row is {each.row}.\n",
            table(("column", "type", "unit", "meaning", "null means"), rows),
        ]
    return "\n".join(parts)


def _values(values: Sequence[str]) -> str:
    return f": {', '.join(values)}" if values else ""


def report_schema() -> str:
    """Every object of the JSON report."""
    parts = []
    for name, body in json_schema()["$defs"].items():
        rows = [
            (f"`{field}`", _type(shape), shape["description"]) for field, shape in body["properties"].items()
        ]
        parts += [
            f"### {name}\n",
            f"{body.get('description', '')}\n",
            table(("field", "type", "meaning"), rows),
        ]
    return "\n".join(parts)


def _type(shape: dict[str, Any]) -> str:
    if "anyOf" in shape:
        return " or ".join(_type(part) for part in shape["anyOf"])
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    if "prefixItems" in shape:
        return f"list of {' and '.join(_type(part) for part in shape['prefixItems'])}"
    if shape.get("type") == "array":
        return f"list of {_type(shape['items'])}"
    if shape.get("type") == "object":
        return f"object of {_type(shape['additionalProperties'])}"
    kind = shape["type"]
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def demo_report() -> str:
    """The first screen of the report on the demo fixture, on a terminal of 100 columns."""
    text = run_mpg(*DEMO).partition("\nSteps")[0]
    return f"```console\n$ mpg {' '.join(DEMO)}\n{text.rstrip()}\n…\n```\n"


def fleet_report() -> str:
    """The first screen of the report on the fixture of a fleet."""
    text = run_mpg(*FLEET).partition("\nWhat is known of the fleet")[0]
    return f"```console\n$ mpg {' '.join(FLEET)}\n{text.rstrip()}\n…\n```\n"


def fleet_details() -> str:
    """The rest of it, up to the jobs."""
    text = run_mpg(*FLEET).partition("\nWhy jobs waited\n")[2].partition("\nRemarks\n")[0]
    return f"```console\n$ mpg {' '.join(FLEET)}\n…\nWhy jobs waited\n{text.rstrip()}\n…\n```\n"


def waits() -> str:
    """Why jobs wait, in the order of the report."""
    rows = ((f"`{cause}`", label) for cause, label in WAIT_LABELS.items())
    return table(("wait", "label"), rows)


def sacct_command() -> str:
    """The command that asks Slurm for all that is of use."""
    start = "SLURM_TIME_FORMAT=%s sacct -a -D -X -P -S 2026-03-02 -E 2026-03-09 \\\n    -o "
    columns = textwrap.fill(COLUMNS.replace(",", ", "), 106).replace(", ", ",")
    return f"```\n{start}{columns.replace(chr(10), chr(92) + chr(10))} > sacct.psv\n```\n"


def run_mpg(*arguments: str) -> str:
    """What `mpg` prints to standard output, run in the root of the repository."""
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'parsers'}"}
    command = [sys.executable, "-m", "mpg_cli", *arguments]
    return subprocess.run(  # noqa: S603 - our own interpreter and arguments
        command, cwd=ROOT, env=environment, check=True, capture_output=True, encoding="utf-8"
    ).stdout


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


REGIONS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "environment": environment,
    "statuses": statuses,
    "cache-limits": cache_limits,
    "limits": limits,
    "hardware": hardware,
    "models": models,
    "causes": causes,
    "grades": grades,
    "tables": tables,
    "report-schema": report_schema,
    "demo-report": demo_report,
    "fleet-report": fleet_report,
    "fleet-details": fleet_details,
    "sacct-command": sacct_command,
    "waits": waits,
}


def current(text: str) -> str:
    """`text` with all its generated regions written anew."""
    return REGION.sub(lambda match: match[1] + REGIONS[match[2]]() + match[3], text)


def stale() -> Iterator[tuple[Path, str]]:
    """The files that are not current, each with what it should hold."""
    for name in FILES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if (wanted := current(text)) != text:
            yield path, wanted


def main(arguments: Sequence[str]) -> int:
    """Write what is not current, or with --check only name it; the exit status."""
    found = list(stale())
    if "--check" in arguments:
        for path, _ in found:
            print(f"{path.relative_to(ROOT)} is not current: run `make docs`", file=sys.stderr)
        return int(bool(found))
    for path, wanted in found:
        path.write_text(wanted, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
