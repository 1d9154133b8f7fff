from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mpg_cli.report import json, markdown
from tests.mpg_cli.report import rendered, reports

if TYPE_CHECKING:
    from collections.abc import Callable

SHOWN = ("single", "two_ranks", "bounds", "no_steps", "fleet", "empty")


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", [80, 160])
def test_terminal(name: str, width: int, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.{width}.txt", rendered.text(reports.ALL[name](), width).encode())


@pytest.mark.parametrize("name", ["two_ranks", "hostile"])
def test_ascii(name: str, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.80.ascii.txt", rendered.ascii_bytes(reports.ALL[name](), 80))


@pytest.mark.parametrize("name", ["single", "two_ranks", "hostile"])
def test_markdown(name: str, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.md", markdown.render(reports.ALL[name]()).encode())


@pytest.mark.parametrize("name", ["two_ranks", "empty"])
def test_json(name: str, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.json", json.render(reports.ALL[name]()))
