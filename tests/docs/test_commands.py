"""Every command of the documentation works, and prints what is shown below it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import FILES, ROOT, Command, commands, examples

# first words of commands that are not run here, and why
NOT_RUN = {
    "make": "needs an environment of its own; CI runs the same targets",
    "pip install": "needs the network; make smoke installs the wheel",
    "pipx install": "needs the network; make smoke installs the wheel",
}
SHELL = shutil.which("sh") or "/bin/sh"


def is_run(command: Command) -> bool:
    return not any(command.text.startswith(words) for words in NOT_RUN)


@pytest.fixture(params=FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def document(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A document; the current folder holds the fixtures and the document's example files."""
    path: Path = request.param
    shutil.copytree(ROOT / "fixtures", tmp_path / "work/fixtures", ignore=shutil.ignore_patterns("*.py*"))
    for name, text in examples(path).items():
        (tmp_path / "work" / name).write_text(text, encoding="utf-8")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    mpg = bin_folder / "mpg"
    mpg.write_text(f'#!{SHELL}\nexec "{sys.executable}" -m mpg_cli "$@"\n')
    mpg.chmod(0o755)
    return path


def test_commands(document: Path, tmp_path: Path) -> None:
    for command in filter(is_run, commands(document)):
        done = subprocess.run(
            [SHELL, "-c", command.text],
            cwd=tmp_path / "work",
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command.block.place}: $ {command.text}\n{done.stdout}"
        if command.output:
            assert matches(command.output, done.stdout), f"{command.block.place} now prints\n{done.stdout}"


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'parsers'}",
        "PYTHONUTF8": "1",
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


def matches(shown: str, printed: str) -> bool:
    """Whether `printed` is `shown`: `…` stands for any lines, ` …` at an end for the rest of a line."""
    plain = "\n".join(line.rstrip() for line in printed.rstrip().split("\n"))
    return re.fullmatch("\n".join(map(pattern, shown.split("\n"))), plain) is not None


def pattern(line: str) -> str:
    if line.strip() == "…":
        return r"[\s\S]*"
    start = line.rstrip().removesuffix(" …")
    return re.escape(start) + (".*" if start != line.rstrip() else "")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\n…", "a\nb\nc", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a", "a\nb", False),
        ("a.c", "abc", False),
        ("a …\nc", "a b\nc", True),
        ("a …", "a b\nc", False),
    ],
)
def test_matching(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same


def test_every_exemption_is_needed() -> None:
    texts = [command.text for path in FILES for command in commands(path)]
    assert [words for words in NOT_RUN if not any(text.startswith(words) for text in texts)] == []
