"""Directories of private paths, taken out of names before they reach a table."""

from __future__ import annotations

import re

# a Python frame, "/home/ann/my project/train.py(88): step": all that stands before the line number is the
# path
FRAME = re.compile(r"(?P<directories>.*?[\\/])[^\\/]*?\(\d+\): ")
ROOT = r"(?:\w+:///?|[A-Za-z]:[\\/]|\\\\|~[\w.-]*[\\/]|\.\.?[\\/]|/)"
PART = r"[^\s\\/:*?\"'<>|(),;=]+"
HOME = rf"(?:/home/|/Users/|[A-Za-z]:[\\/]Users[\\/]){PART}[\\/]?"
# the directories of a path inside other text: "<built-in method x of /a/b.py>", but not "torch/nn/modules"
DIRECTORIES = re.compile(rf"(?<![\w.)\]\\/~-])(?:(?:\w+://)?{HOME}(?:{PART}[\\/])*|{ROOT}(?:{PART}[\\/])+)")
# directories under which public code lives: the path below them is kept
PUBLIC = re.compile(r".*[\\/](?:site-packages|dist-packages|lib[\\/]python\d[\d.]*)[\\/]")
INDUCTOR = re.compile(r"torchinductor_[^\\/]+[\\/]")


def strip_directories(name: str) -> str:
    """`name` without the directories of absolute, ~ and ../ paths; what is below site-packages is kept."""
    if "/" not in name and "\\" not in name:
        return name
    frame = FRAME.match(name)
    if frame and re.match(ROOT, frame["directories"]):
        return _public_part(frame["directories"]) + name[frame.end("directories") :]
    return DIRECTORIES.sub(lambda match: _public_part(match[0]), name)


def _public_part(directories: str) -> str:
    public = PUBLIC.match(directories)
    if public:
        return directories[public.end() :]
    return "torchinductor/" if INDUCTOR.search(directories) else ""
