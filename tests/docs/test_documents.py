"""The documentation is current, complete, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from docs import generate
from mpg_cli import config, hardware
from mpg_cli.commands import STRICT
from mpg_cli.config import KEYS, Settings
from mpg_cli.goodput.idle.rules import IdleRules
from mpg_cli.goodput.models import Models, declared, registry
from mpg_cli.goodput.scheduling import waits
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_cli.hardware import entries
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


def kinds_in_code(function: str, within: str = "") -> Iterator[str]:
    """The literal first arguments of all calls of `function` in the two packages, or in one file of them."""
    files = [*(ROOT / "mpg_cli").rglob("*.py"), *(ROOT / "parsers/mpg_parsers").rglob("*.py")]
    for path in [ROOT / within] if within else files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Name(name), [ast.Constant(str(kind)), *_]) if name == function:
                    yield kind


def warnings_in_code() -> set[str]:
    """The kinds of all notices; what is an error of a single source is a notice beside other sources."""
    return {*kinds_in_code("Notice"), *kinds_in_code("InputError", "mpg_cli/silent.py")}


def test_every_warning_is_explained() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    kinds = warnings_in_code()
    assert {"no_device_activity", "above_peak"} <= kinds
    assert len(kinds) >= 15
    assert [kind for kind in sorted(kinds) if f"| `{kind}` |" not in text] == []


def test_the_warnings_that_strict_refuses_are_marked() -> None:
    kinds = warnings_in_code()
    rows = re.findall(r"^\| `(\w+)` \| (\* )?\S", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
    marked = {kind: bool(mark) for kind, mark in rows if kind in kinds}
    assert marked == {kind: kind in STRICT for kind in kinds}


def test_every_error_is_explained() -> None:
    text = (ROOT / "docs/formats.md").read_text()
    used = set(kinds_in_code("InputError"))
    assert used <= set(ERROR_KINDS)
    assert [kind for kind in sorted(used) if f"| `{kind}` |" not in text] == []


def test_every_finding_on_a_fleets_records_is_explained() -> None:
    section = (ROOT / "docs/fleets.md").read_text().partition("\n## What is wrong with the records\n")[2]
    rows = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert sorted(rows) == sorted(set(kinds_in_code("Found", "mpg_cli/goodput/scheduling/integrity.py")))


def test_every_cause_of_a_wait_is_in_the_order_of_tests() -> None:
    section = (ROOT / "docs/fleets.md").read_text().partition("\n## Why jobs waited\n")[2]
    told = set(re.findall(r"`(\w+)`", section.partition("<!-- generated")[0]))
    assert [cause for cause in waits.CAUSES if cause not in {*told, "unknown"}] == []


def test_every_key_of_models_and_chips_is_explained() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    for title, keys in (("### Declaring a model", declared.KEYS), ("### The chip", entries.KEYS)):
        section = text.partition(f"\n{title}\n")[2].partition("\n### ")[0]
        rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE)
        assert sorted(re.findall(r"\w+", " ".join(rows))) == sorted(keys)


def test_every_cause_of_the_program_layer_is_explained() -> None:
    section = (ROOT / "docs/metrics.md").read_text().partition("\n## Program Goodput\n")[2]
    rows = re.findall(r"^\| `(\w+)` \|", section.partition("\n### ")[0], re.MULTILINE)
    causes = load_taxonomy().causes.values()
    assert {*rows, "productive"} == {cause.id for cause in causes if cause.layer == "program"}


def test_every_shipped_model_is_listed() -> None:
    text = (ROOT / "docs/models.md").read_text()
    operators = [name.rpartition("::")[2] for name in registry.MODELS]
    assert len(operators) > 300
    assert [name for name in operators if f"`{name}`" not in text] == []


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
    given = {f"{section}.{key}" for section in ("analyze", "fleet", "cache") for key in document[section]}
    assert given == KEYS.keys()
    (tmp_path / "mpg.toml").write_text(shown, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for _, variable in KEYS.values():
        monkeypatch.delenv(variable, raising=False)
    loaded = config.load(tmp_path / "mpg.toml", {})
    assert loaded.name_rules
    assert IdleRules.load(loaded.idle_rules).ranges[0].id == loaded.idle_rules[0]["id"]
    assert Models.load(loaded.models).declared
    assert hardware.load(loaded.chips).chips[0].name == loaded.chips[0]["name"]
    shown_as_examples = {
        "step_regex": None, "nsys": None, "cache_dir": None, "chip": None, "useful_tokens": None,
        "flops_per_step": None,
        "price": None, "job_chips": None, "by": (),
        "tz": None, "capacity": None, "size_classes": None, "mapping": (), "segment": (),
        "name_rules": (), "idle_rules": (), "models": (), "chips": (),
    }  # fmt: skip
    assert replace(loaded, **shown_as_examples) == Settings()
