"""The documentation is current, complete, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from docs import generate
from mpg_cli import config
from mpg_cli.commands import STRICT
from mpg_cli.config import KEYS, Settings
from mpg_parsers.errors import ERROR_KINDS
from tests.docs.markdown import FILES, ROOT, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def test_generated_parts_are_current() -> None:
    assert [path.name for path, _ in generate.stale()] == [], "run `make docs`"


def test_every_region_is_used() -> None:
    used = {
        match[2] for name in generate.FILES for match in generate.REGION.finditer((ROOT / name).read_text())
    }
    assert used == generate.REGIONS.keys()


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", CODE.sub(_inline, path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _inline(match: re.Match[str]) -> str:
    return "" if match[0].startswith("```") else match[0].strip("`")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links(path: Path) -> None:
    for target in LINK.findall(CODE.sub("", path.read_text())):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def kinds_in_code(function: str) -> Iterator[str]:
    """The literal first arguments of all calls of `function` in the two packages."""
    for path in [*(ROOT / "mpg_cli").rglob("*.py"), *(ROOT / "parsers/mpg_parsers").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Name(name), [ast.Constant(str(kind)), *_]) if name == function:
                    yield kind


def test_every_warning_is_explained() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    kinds = set(kinds_in_code("Notice"))
    assert len(kinds) >= 10
    assert [kind for kind in sorted(kinds) if f"| `{kind}` |" not in text] == []


def test_the_warnings_that_strict_refuses_are_marked() -> None:
    kinds = set(kinds_in_code("Notice"))
    rows = re.findall(r"^\| `(\w+)` \| (\* )?\S", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
    marked = {kind: bool(mark) for kind, mark in rows if kind in kinds}
    assert marked == {kind: kind in STRICT for kind in kinds}


def test_every_error_is_explained() -> None:
    text = (ROOT / "docs/formats.md").read_text()
    used = set(kinds_in_code("InputError"))
    assert used <= set(ERROR_KINDS)
    assert [kind for kind in sorted(used) if f"| `{kind}` |" not in text] == []


def test_the_readme_names_every_dependency_and_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=]", text)[0] for text in project["dependencies"]}
    section = text.partition("## Dependencies")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == needed
    assert [
        page.name for page in FILES if page.name != "README.md" and f"(docs/{page.name})" not in text
    ] == []


def test_the_settings_shown_are_all_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = next(block.text for block in blocks(ROOT / "docs/cli.md") if block.info == ("toml",))
    document = tomllib.loads(shown)
    given = {f"{section}.{key}" for section in ("analyze", "cache") for key in document[section]}
    assert given == KEYS.keys()
    (tmp_path / "mpg.toml").write_text(shown, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for _, variable in KEYS.values():
        monkeypatch.delenv(variable, raising=False)
    loaded = config.load(None, {})
    assert loaded.name_rules
    assert replace(loaded, name_rules=(), step_regex=None, cache_dir=None) == Settings()
