"""Which parser takes a file, and what is said when none does."""

from __future__ import annotations

import gzip
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest

from mpg_parsers import registry
from mpg_parsers.errors import InputError, UsageError
from mpg_parsers.pytorch import PYTORCH
from mpg_parsers.source import Source, expand

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    registry.parsers.cache_clear()
    yield
    registry.parsers.cache_clear()


def source(folder: Path, data: bytes) -> Source:
    path = folder / "file"
    path.write_bytes(data)
    with expand([str(path)]) as expansion:
        return expansion.sources[0]


def test_json_goes_to_pytorch(tmp_path: Path) -> None:
    assert registry.detect(source(tmp_path, b'{"traceEvents": []}')) is PYTORCH


def test_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 bytes") as caught:
        registry.detect(source(tmp_path, b""))
    assert caught.value.kind == "empty_input"


def test_no_parser_takes_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pytorch: it does not start as") as caught:
        registry.detect(source(tmp_path, b"hello"))
    assert caught.value.kind == "unsupported_format"


def test_damage_is_not_the_first_concern(tmp_path: Path) -> None:
    """Of compressed data that are damaged, what precedes the damage decides."""
    log, trace = (gzip.compress(start + bytes(range(256)))[:-8] + bytes(8) for start in (b"hello", b"{"))
    with pytest.raises(InputError, match="pytorch: it does not start as") as caught:
        registry.detect(source(tmp_path, log))
    assert caught.value.kind == "unsupported_format"
    assert registry.detect(source(tmp_path, trace)) is PYTORCH
    with pytest.raises(InputError) as caught:
        registry.detect(source(tmp_path, b"\x1f\x8bnothing that can be inflated"))
    assert caught.value.kind == "corrupt_input"


class Shouter:
    """A parser of another distribution."""

    name = "shouter"
    description = "text in capitals"
    tables = ("sources",)

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002
        return "" if head.isupper() else "it does not shout"

    def parse(self, source: Source, options: registry.ParseOptions) -> Iterator[tuple[str, object]]:  # noqa: ARG002
        yield from ()


SHOUTER = Shouter()


def plug_in(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint("shouter", value, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == registry.GROUP else [])


def test_parsers_of_other_distributions_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, f"{__name__}:SHOUTER")
    assert registry.detect(source(tmp_path, b"HELLO")).name == "shouter"
    assert registry.detect(source(tmp_path, b"[]")) is PYTORCH
    with pytest.raises(InputError, match=r"shouter: it does not shout; .*pytorch: "):
        registry.detect(source(tmp_path, b"hello"))


def test_a_broken_plug_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "no_such_module:parser")
    with pytest.raises(
        UsageError, match="'shouter' of unknown distribution cannot be loaded: ModuleNotFoundError"
    ):
        registry.parsers()
