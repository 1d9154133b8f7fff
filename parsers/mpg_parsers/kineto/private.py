"""Directories of private paths, taken out of names before they reach a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

# a Python frame, "/home/ann/my project/train.py(88): step": all that stands before the line number is the
# path
FRAME = re.compile(r"(?P<directories>.*?[\\/])[^\\/]*?\(\d+\): ")
# Single characters repeat possessively, groups never: before Python 3.11.5 a possessive group may take too much.
SEP = r"[\\/]++"
PART = r"[^\s\\/:*?\"'<>|(),;=]++"
ROOT = (
    rf"(?:\w++:/{{2,}}+|[A-Za-z]:{SEP}|\\{{2,}}+|~[\w.-]*+{SEP}|\$(?:\w++|\{{\w++\}}){SEP}|%\w++%{SEP}|\.\.?{SEP}"
    r"|/++)"
)
# no name but a path has these in it
HOMES = rf"(?:(?<!/)/++(?:home|Users)|[A-Za-z]:{SEP}Users){SEP}"
HOME = rf"(?:{HOMES}{PART}(?:{SEP})?|(?:(?<![\w/])|(?<=-[A-Za-z]))/++root{SEP})"
# a user's own, wherever a word may begin
OWN = rf"(?:(?:\w++:/{{2,}}+)?{HOME}|~[\w.-]++{SEP})"
REMOTE = r"[\w.-]++@[\w.-]++:(?=[\\/~])"
# %2Fhome%2Fann%2F…
CODED_SEP = r"%(?:2[Ff]|5[Cc])"
CODED_PART = rf"(?:[^\s\\/%:*?\"'<>|(),;=]|(?!{CODED_SEP})%)+"
CODED = (
    rf"{CODED_SEP}(?:home|Users)(?:{CODED_SEP})+{CODED_PART}(?:{CODED_SEP})*(?:{CODED_PART}(?:{CODED_SEP})+)*"
)
# the directories of a path inside other text: "<built-in method x of /a/b.py>", but not "torch/nn/modules"
DIRECTORIES = re.compile(
    rf"(?<![\w.)\]\\/~-])(?:(?:{REMOTE})?(?:{OWN}(?:{PART}{SEP})*|{ROOT}(?:{PART}{SEP})+)|{REMOTE})"
    rf"|{HOME}(?:{PART}{SEP})*|{CODED}"
)
# a name that is a path as a whole: its directories may have spaces in them
WIDE = r"[^\\/:*?\"'<>|(),;=]++"
WHOLE = re.compile(
    rf"(?:{HOMES}{WIDE}(?:{SEP}|\Z)|(?!{HOMES}){ROOT}{WIDE}{SEP})(?:{WIDE}{SEP})*(?=(?:{WIDE})?\Z)"
)
# directories under which public code lives: the path below them is kept
PUBLIC = re.compile(r".*[\\/](?:site-packages|dist-packages|lib[\\/]python\d[\d.]*)[\\/]")
SEPARATOR = re.compile(rf"[\\/]|{CODED_SEP}")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
INDUCTOR = re.compile(r"torchinductor_[^\\/]+[\\/]")


def strip_directories(name: str) -> str:
    """`name` without the directories of absolute, ~ and ../ paths; what is below site-packages is kept."""
    if not SEPARATOR.search(name):
        return name
    frame = FRAME.match(name)
    if frame and re.match(ROOT, frame["directories"]):
        return _public_part(frame["directories"]) + name[frame.end("directories") :]
    whole = WHOLE.match(name)
    if whole:
        return _public_part(whole[0]) + name[whole.end() :]
    return DIRECTORIES.sub(lambda match: _public_part(match[0]), name)


def strip_strings(text: str, clean: Callable[[str], str]) -> str | None:
    """JSON with its strings cleaned, or a text that is none; null for what only looks like JSON.

    Only a text in which there may be a path is looked into.
    """
    if not SEPARATOR.search(text):
        return text
    if text[0] not in '[{"':
        return clean(text)
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        return STRING.sub(lambda match: _encoded(clean(msgspec.json.decode(match[0]))), text)
    except (ValueError, RecursionError):
        return None


def _encoded(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _public_part(directories: str) -> str:
    public = PUBLIC.match(directories)
    if public:
        return directories[public.end() :]
    return "torchinductor/" if INDUCTOR.search(directories) else ""
