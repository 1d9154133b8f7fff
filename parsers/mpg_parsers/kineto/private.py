"""Directories of private paths, taken out of names before they reach a table."""

from __future__ import annotations

import re

# what precedes a path inside a name: "/home/ann/train.py(88): step", "<built-in method x of /a/b.py>"
PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\\/]|~/|\.\.?[\\/])(?:[^\s\\/:*?\"<>|(),;]+[\\/])+")
# directories under which public code lives: the path below them is kept
PUBLIC = re.compile(r".*[\\/](?:site-packages|dist-packages|lib[\\/]python\d[\d.]*)[\\/]")
INDUCTOR = re.compile(r"torchinductor_[^\\/]+")


def strip_directories(name: str) -> str:
    """`name` with the directories of absolute and ./ paths removed, unless they lead into an installed package."""
    if "/" not in name and "\\" not in name:
        return name
    return PATH.sub(_keep_public, name)


def _keep_public(match: re.Match[str]) -> str:
    directories = match[0]
    public = PUBLIC.match(directories)
    if public:
        return directories[public.end() :]
    return "torchinductor/" if INDUCTOR.search(directories) else ""
