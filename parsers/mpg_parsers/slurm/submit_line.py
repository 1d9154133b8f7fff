"""What a command line of sbatch, srun or salloc made its job wait for, and the switches it asked for.

Accounting keeps the line without its quotes, and without the #SBATCH lines of the script.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from mpg_parsers.slurm.durations import limit_ns
from mpg_parsers.slurm.words import words

# lines without these letters say nothing of that kind
SIGN = r"\s(?:--(?:dep|begin|hold|array|switches)|-[A-Za-z]*[dbHa])"
_ALONE = frozenset(
    words(
        "contiguous disable-stdout-job-summary exclusive get-user-env help hold ignore-pbs kill-on-invalid-dep no-kill "
        "no-requeue oversubscribe overcommit parsable quiet reboot requeue share spread-job test-only usage "
        "use-min-nodes verbose version wait wait-for-switch exact multi-prog no-allocate pty unbuffered x11 nice "
        "propagate preserve-env label no-shell no-bell bell immediate stepmgr"
    )
)
_LETTERS_ALONE = frozenset("hHIkKOQsvVWXZElu")
_NAMES = {"d": "dependency", "b": "begin", "a": "array", "H": "hold"}
_FREE = frozenset({"J", "job-name", "comment"})  # their values may have had blanks in quotes
_SWITCHES = re.compile(r"(\d+)(?:@(\S+))?", re.ASCII)
LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Wishes:
    """`holds` as a JSON list or None; the most switches, and how long to wait for them (ns)."""

    holds: str | None = None
    switches: int | None = None
    wait_ns: int | None = None


@lru_cache(maxsize=8192)
def wishes(line: str) -> Wishes:
    """What a command line asks for."""
    options = _options(line[:LONGEST].split())
    holds = [
        word
        for word, name in (("dependency", "dependency"), ("begin_time", "begin"), ("held", "hold"))
        if name in options
    ]
    if re.search(r"%\d", options.get("array", "")):
        holds.append("array_limit")
    switches, wait = switches_of(options.get("switches", ""))
    return Wishes(json.dumps(holds) if holds else None, switches, wait)


def switches_of(text: str) -> tuple[int | None, int | None]:
    """(switches, how long to wait in ns) of N or N@time, where a bare time is minutes; None where not said."""
    match = _SWITCHES.fullmatch(text)
    if match is None or not int(match[1][:9]):
        return None, None
    return int(match[1][:9]), limit_ns(match[2]) if match[2] else None


def _options(tokens: list[str]) -> dict[str, str]:
    """Options before the script, by long name, with their values."""
    found: dict[str, str] = {}
    at = 1
    while at < len(tokens) and tokens[at].startswith("-") and not tokens[at].startswith("--wrap"):
        name, value, at = _option(tokens, at)
        found[_whole(name)] = value
        if name in _FREE:
            while at < len(tokens) and re.match(r"[^-./][^./]*$", tokens[at]):
                at += 1
    return found


def _whole(name: str) -> str:
    """The option's long name; getopt takes unambiguous beginnings."""
    if name in _NAMES:
        return _NAMES[name]
    whole = (*_NAMES.values(), "switches") if len(name) > 2 else ()
    return next((long for long in whole if long.startswith(name)), name)


def _option(tokens: list[str], at: int) -> tuple[str, str, int]:
    """(name, value, place after it) of the option at `at`."""
    token = tokens[at]
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if token.startswith("--"):
        name, given, value = token[2:].partition("=")
        if given or name in _ALONE:
            return name, value, at + 1
        return name, following, at + 2
    while len(token) > 2 and token[1] in _LETTERS_ALONE:
        if token[1] == "H":
            return "H", "", at + 1
        token = "-" + token[2:]
    if token[1:2] in _LETTERS_ALONE:
        return token[1:2], "", at + 1
    return (
        (token[1:2], token[2:].removeprefix("="), at + 1)
        if len(token) > 2
        else (token[1:2], following, at + 2)
    )
