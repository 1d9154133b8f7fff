"""Fenced blocks and commands of Markdown files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([ROOT / "README.md", ROOT / "fixtures/README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after the fence, its text, and the line it starts on."""

    path: Path
    line: int
    info: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block and the output shown below it."""

    block: Block
    text: str
    output: str


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    return [
        Block(path, text.count("\n", 0, match.start()) + 1, tuple(match[1].split()), match[2])
        for match in FENCE.finditer(text)
    ]


def commands(path: Path) -> list[Command]:
    found = []
    for block in blocks(path):
        if block.info[:1] in (("console",), ("sh",)):
            parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
            assert not parts[0].strip(), f"{block.place}: output before the first command"
            found += [Command(block, *_split(part)) for part in parts[1:]]
    return found


def _split(part: str) -> tuple[str, str]:
    """A command, which a backslash continues, and its output."""
    lines = part.split("\n")
    end = next(i for i, line in enumerate(lines) if not line.endswith("\\"))
    return "\n".join(lines[: end + 1]), "\n".join(lines[end + 1 :]).rstrip()


def examples(path: Path) -> dict[str, str]:
    """The example files of a document: blocks that begin with ```json trace NAME or ```toml settings NAME."""
    kinds = (("json", "trace"), ("toml", "settings"))
    return {block.info[2]: block.text for block in blocks(path) if block.info[:2] in kinds}
