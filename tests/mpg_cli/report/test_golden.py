from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mpg_cli.report import json, markdown
from tests.mpg_cli.report import rendered, samples

if TYPE_CHECKING:
    from collections.abc import Callable

SHOWN = ("single", "two_ranks", "bounds", "no_steps", "fleet", "empty")
JUDGED = ("owlv2", "uncovered", "recomputed", "no_bandwidth", "starved", "serving", "profiled")


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", [80, 160])
def test_terminal(name: str, width: int, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.{width}.txt", rendered.text(samples.ALL[name](), width).encode())


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("width", [80, 100])
def test_program(name: str, width: int, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.{width}.txt", rendered.text(samples.ALL[name](), width).encode())


@pytest.mark.parametrize(
    ("name", "width"), [("owlv2", 100), ("recomputed", 160), ("starved", 160), ("profiled", 160)]
)
def test_detail(name: str, width: int, golden: Callable[[str, bytes], None]) -> None:
    golden(
        f"report/{name}.{width}.detail.txt", rendered.text(samples.ALL[name](), width, detail=True).encode()
    )


@pytest.mark.parametrize("name", ["two_ranks", "hostile", "owlv2", "starved"])
def test_ascii(name: str, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.80.ascii.txt", rendered.ascii_bytes(samples.ALL[name](), 80))


@pytest.mark.parametrize(
    "name", ["single", "two_ranks", "hostile", "uncovered", "starved", "serving", "profiled"]
)
def test_markdown(name: str, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.md", markdown.render(samples.ALL[name]()).encode())


@pytest.mark.parametrize("name", ["two_ranks", "empty", "owlv2", "starved", "serving"])
def test_json(name: str, golden: Callable[[str, bytes], None]) -> None:
    golden(f"report/{name}.json", json.render(samples.ALL[name]()))
