"""Settings: command line > MPG_* environment > mpg.toml > [tool.mpg] of pyproject.toml > defaults.

    [analyze]
    window = "steps"            # steps, device or all
    view = "default"            # default or fleet-paper
    step-regex = 'step\\[.*'     # host ranges that are steps
    keep-names = false          # keep host names and private paths
    jobs = 0                    # processes that share one large file; 0: as many as there are cores, up to 4
    nsys = "/opt/…/nsys"        # NVIDIA's program, to export .nsys-rep files; only in a file that --config names
    chip = "H100 SXM"           # instead of what the trace reports; `mpg hardware` lists the names
    pg-basis = "peak"           # peak, roofline or achievable
    useful-tokens = 0.85        # share of tokens that are not padding
    flops-per-step = 1.2e15     # of one device, instead of operator models
    price = "2.50/chip-hour"    # what the time in findings costs, in any currency
    chips = 1024                # the whole job's, where the traces hold only some of them
    per-step = false            # every step's account
    by = ["module", "rank"]     # break device time down by module, op, kernel, stream, category or rank

    [fleet]
    tz = "Europe/Berlin"        # zone of wall times that name none
    capacity = "h100=512,a100=64"  # chips by type, or just a number, where no file states them
    size-classes = "8,64,512"   # upper bounds in chips of small, medium and large jobs
    map = ["chips=gpus_req"]    # columns of job tables; or a mapping's name or file
    by = ["label:team"]         # segments besides the usual ones
    redact = false              # replace names of users, accounts, jobs and nodes by numbers

    [cache]
    enabled = true
    dir = "…"                   # default: $XDG_CACHE_HOME/mpg, else ~/.cache/mpg
    limit = "4GiB"

    [[name]]                    # rules on kernel names, before the shipped ones
    id = "our-allreduce"
    class = "comm"              # compute, comm or memory
    family = "custom"
    pattern = "^acme_ring_"

    [[idle]]                    # host ranges that say why the device waited, before the shipped rules
    id = "our-loader"
    cause = "input"             # of the runtime layer; `mpg explain` lists them
    pattern = "^acme_next_batch"
    kinds = ["annotation"]      # annotation, op, python, runtime or overhead

    [[model]]                   # FLOPs of an operator whose shapes do not tell: see docs/metrics.md
    op = "acme::moe"
    flops = "2 * tokens * hidden * inter * 3 * topk"
    dims = { tokens = "0.0", hidden = "0.1", inter = 2880, topk = 4 }

    [[chip]]                    # a chip the catalogue lacks, or figures that replace its own
    name = "Acme X1"

A relative `dir`, or path of `nsys`, starts from the folder of the settings file.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mpg_parsers.errors import UsageError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE = "mpg.toml"
WINDOWS = ("steps", "device", "all")
VIEWS = ("default", "fleet-paper")
BASES = ("peak", "roofline", "achievable")
BREAKDOWNS = ("module", "op", "kernel", "stream", "category", "rank")
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
ON = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `name_rules`, `idle_rules`, `models` and `chips` are the [[name]], [[idle]], [[model]] and [[chip]]
    tables as written; `price` is per chip and hour, `job_chips` the number of chips in the whole job.
    """

    window: str = "steps"
    view: str = "default"
    step_regex: str | None = None
    keep_names: bool = False
    cache_enabled: bool = True
    cache_dir: str | None = None
    cache_limit: int = 4 << 30
    jobs: int = 0
    nsys: str | None = None
    chip: str | None = None
    pg_basis: str = "peak"
    useful_tokens: float | None = None
    flops_per_step: float | None = None
    price: float | None = None
    job_chips: int | None = None
    per_step: bool = False
    by: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    as_of: str | None = None
    tz: str | None = None
    capacity: str | None = None
    size_classes: str | None = None
    mapping: tuple[str, ...] = ()
    segment: tuple[str, ...] = ()
    redact: bool = False
    name_rules: tuple[Mapping[str, object], ...] = ()
    idle_rules: tuple[Mapping[str, object], ...] = ()
    models: tuple[Mapping[str, object], ...] = ()
    chips: tuple[Mapping[str, object], ...] = ()


# section.key in the file, field of Settings, environment variable
KEYS = {
    "analyze.window": ("window", "MPG_WINDOW"),
    "analyze.view": ("view", "MPG_VIEW"),
    "analyze.step-regex": ("step_regex", "MPG_STEP_REGEX"),
    "analyze.keep-names": ("keep_names", "MPG_KEEP_NAMES"),
    "analyze.jobs": ("jobs", "MPG_JOBS"),
    "analyze.nsys": ("nsys", "MPG_NSYS"),
    "analyze.chip": ("chip", "MPG_CHIP"),
    "analyze.pg-basis": ("pg_basis", "MPG_PG_BASIS"),
    "analyze.useful-tokens": ("useful_tokens", "MPG_USEFUL_TOKENS"),
    "analyze.flops-per-step": ("flops_per_step", "MPG_FLOPS_PER_STEP"),
    "analyze.price": ("price", "MPG_PRICE"),
    "analyze.chips": ("job_chips", "MPG_CHIPS"),
    "analyze.per-step": ("per_step", "MPG_PER_STEP"),
    "analyze.by": ("by", "MPG_BY"),
    "fleet.tz": ("tz", "MPG_TZ"),
    "fleet.capacity": ("capacity", "MPG_CAPACITY"),
    "fleet.size-classes": ("size_classes", "MPG_SIZE_CLASSES"),
    "fleet.map": ("mapping", "MPG_MAP"),
    "fleet.by": ("segment", "MPG_SEGMENT"),
    "fleet.redact": ("redact", "MPG_REDACT"),
    "cache.enabled": ("cache_enabled", "MPG_CACHE_ENABLED"),
    "cache.dir": ("cache_dir", "MPG_CACHE_DIR"),
    "cache.limit": ("cache_limit", "MPG_CACHE_LIMIT"),
}
LISTS = {
    "name": "name_rules",
    "idle": "idle_rules",
    "model": "models",
    "chip": "chips",
}  # section written [[so]], field of Settings
SECTIONS = ("analyze", "fleet", "cache", *LISTS)
LIMITS = {
    "jobs": (0.0, 64.0), "useful_tokens": (0.0, 1.0), "flops_per_step": (1.0, 1e24),
    "job_chips": (1.0, 1e7),
}  # fmt: skip
WHOLE = ("jobs", "job_chips")
TABLE_KEYS = {
    "name": ("id", "class", "family", "pattern", "examples", "not"),
    "idle": ("id", "cause", "pattern", "kinds", "not", "examples", "excluded"),
}  # of [[so]]; the others are checked where they are used


def load(
    explicit: Path | None, flags: Mapping[str, Any], warn: Callable[[str], None] = lambda _: None
) -> Settings:
    """The settings in force. `flags` are the values given on the command line, None where not given.

    Raises UsageError for an unknown key or value, naming where it stands. A pyproject.toml that cannot be read is
    told to `warn`: it may be of another program.
    """
    values: dict[str, Any] = {}
    document, base, where = _document(explicit, warn)
    if document:
        values.update(_from_document(document, base, where))
        if explicit is None and "nsys" in values:
            _refuse_program(where)
    for name, variable in KEYS.values():
        if os.environ.get(variable):
            values[name] = check(name, os.environ[variable], variable)
    values.update(
        {name: check(name, value, _flag(name)) for name, value in flags.items() if value is not None}
    )
    return replace(Settings(), **values)


def _refuse_program(where: str) -> NoReturn:
    """A folder that somebody was sent must not say which program to run."""
    message = f"{where}: analyze.nsys: a program is run only if the settings file is named"
    raise UsageError(message, hint="say --nsys PATH, or --config with this file, or set MPG_NSYS")


def _flag(name: str) -> str:
    renamed = {
        "job_chips": "chips",
        "since": "from",
        "until": "to",
        "mapping": "map",
        "segment": "segment-by",
    }
    return f"--{renamed.get(name, name).replace('_', '-')}"


def _document(explicit: Path | None, warn: Callable[[str], None]) -> tuple[dict[str, Any], Path, str]:
    """(settings as written, folder that relative paths start from, name for messages)."""
    if explicit is not None:
        return _read(explicit), explicit.parent, str(explicit)
    if Path(FILE).is_file():
        return _read(Path(FILE)), Path(), FILE
    project = Path("pyproject.toml")
    if project.is_file():
        return _of_project(project, warn), Path(), "pyproject.toml [tool.mpg]"
    return {}, Path(), ""


def _of_project(project: Path, warn: Callable[[str], None]) -> dict[str, Any]:
    try:
        tool = _read(project).get("tool")
    except UsageError as error:
        warn(f"{error.message} (no settings are taken from it)")
        return {}
    found = tool.get("mpg", {}) if isinstance(tool, dict) else {}
    return _table(found, "pyproject.toml: [tool.mpg]")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a settings file that can be read") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}", hint="the settings file is TOML in UTF-8") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply", hint="the settings file is plain TOML") from error


def _table(content: object, where: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UsageError(f"{where} must be a table")
    return content


def _from_document(document: Mapping[str, Any], base: Path, where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for section, content in document.items():
        _known(section, SECTIONS, where)
        if section in LISTS:
            values[LISTS[section]] = _list_of_tables(section, content, where)
            continue
        for key, value in _table(content, f"{where}: [{section}]").items():
            full = f"{section}.{key}"
            _known(full, tuple(KEYS), where)
            name = KEYS[full][0]
            values[name] = check(name, value, f"{where}: {full}")
    for name in ("cache_dir", "nsys"):
        if values.get(name):
            values[name] = _from_folder(name, values[name], base)
    return values


def _from_folder(name: str, path: str, base: Path) -> str:
    """A path in a settings file; the name of a program alone is one on the PATH."""
    home = os.path.expanduser(path)  # noqa: PTH111 - Path's raises where there is no home
    return home if name == "nsys" and Path(home).name == home else str(base / home)


def _list_of_tables(section: str, content: object, where: str) -> tuple[dict[str, Any], ...]:
    """The [[section]] tables; what they say is checked when rules, models or chips are made of them."""
    tables = content if isinstance(content, list) else [content]
    for table in tables:
        for key in _table(table, f"{where}: [[{section}]]"):
            if section in TABLE_KEYS:
                _known(key, TABLE_KEYS[section], f"{where}: [[{section}]]")
    return tuple(tables)


def _known(name: str, names: tuple[str, ...], where: str) -> None:
    if name not in names:
        raise UsageError(
            f"{where}: unknown setting {shown(name)}{did_you_mean(name, names)}",
            hint=f"known: {', '.join(names)}",
        )


def did_you_mean(name: str, names: tuple[str, ...]) -> str:
    """The words "; did you mean …?" if one of `names` is close, else nothing."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check(name: str, value: object, where: str) -> object:
    """A value of the setting's type. Raises UsageError."""
    choices = {"window": WINDOWS, "view": VIEWS, "pg_basis": BASES}.get(name)
    if choices:
        return _choice(value, choices, where)
    if name in LIMITS:
        return _number(name, value, where)
    if reader := READERS.get(name):
        return reader(value, where)
    if not isinstance(value, str):
        raise UsageError(f"{where}: expected a text, got {shown(value)}")
    return value or None


def _choice(value: object, choices: tuple[str, ...], where: str) -> object:
    if value not in choices:
        close = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise UsageError(f"{where}: {shown(value)} is none of {', '.join(choices)}{close}")
    return value


def _breakdowns(value: object, where: str) -> tuple[object, ...]:
    """Some of BREAKDOWNS, each once, in a list or in a text with commas."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise UsageError(f"{where}: expected a list of {', '.join(BREAKDOWNS)}, got {shown(value)}")
    return tuple(dict.fromkeys(_choice(part, BREAKDOWNS, where) for part in parts))


def _texts(value: object, where: str) -> tuple[str, ...]:
    """Texts in a list, or one text."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise UsageError(f"{where}: expected a text or a list of them, got {shown(value)}")
    return tuple(parts)


def _number(name: str, value: object, where: str) -> float:
    low, high = LIMITS[name]
    try:
        number = float(_as_text(value))
    except ValueError:
        number = -1.0
    whole = name in WHOLE
    if isinstance(value, bool) or not low <= number <= high or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"{where}: expected {kind} from {low:g} to {high:g}, got {shown(value)}")
    return int(number) if whole else number


def _boolean(value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    word = _as_text(value).lower()
    if word not in ON:
        raise UsageError(f"{where}: expected true or false, got {shown(value)}")
    return ON[word]


def _as_text(value: object) -> str:
    """Nothing for a number of thousands of digits or a list that is nested as deep: no setting is so long."""
    try:
        return str(value)
    except (ValueError, RecursionError):
        return ""


def parse_size(value: object, where: str) -> int:
    """Bytes in 512, "512MiB" or "4GiB". Raises UsageError."""
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]iB|B|)", _as_text(value).strip())
    if match is None or isinstance(value, bool):
        raise UsageError(f"{where}: expected a size such as 4GiB, got {shown(value)}")
    return int(match[1]) * UNITS[match[2]]


def parse_price(value: object, where: str) -> float:
    """Money per chip and hour in 2.5, "2.50" or "2.50/chip-hour". Raises UsageError."""
    amount = _as_text(value).strip().removesuffix("/chip-hour")
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", amount):
        raise UsageError(f"{where}: expected a price such as 2.50/chip-hour, got {shown(value)}")
    return float(amount)


READERS: Mapping[str, Callable[[object, str], object]] = {
    "cache_limit": parse_size,
    "keep_names": _boolean,
    "cache_enabled": _boolean,
    "per_step": _boolean,
    "redact": _boolean,
    "mapping": _texts,
    "segment": _texts,
    "by": _breakdowns,
    "price": parse_price,
}
