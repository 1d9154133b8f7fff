"""What a pattern matches: as the standard library has it, but links to a folder above come to an end."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest

from mpg_parsers import paths, patterns
from mpg_parsers.errors import InputError
from mpg_parsers.source import expand
from tests.parsers.archives import put
from tests.parsers.test_source import FILES, A, work

__all__ = ["work"]


@pytest.mark.parametrize(
    "pattern", ["d/**/*.json", "**/**/*.json", "d/**", "**/a/**/b/**/*.json", "l=d/**/*.json"]
)
def test_links_to_the_folder_itself_end_a_pattern(work: Path, pattern: str) -> None:
    put(work, {"d/x.json": A})
    for name in ("a", "b", "c"):
        (work / "d" / name).symlink_to(".")
    (source,) = expand([pattern]).sources
    assert source.head() == A


def test_patterns_match_what_the_standard_library_matches(work: Path) -> None:
    put(work, FILES | {".hidden/x.json": A, "run/.env": A, "run/.d/x": A})
    (work / "run/gone").symlink_to("nothing")
    for pattern in ["*", "**", "*/", "**/", ".*", "**/.*", "run/*", "run/**/x*", "*/*.json", "[!a]*", "./r?n/*",
                    "**/sub/*", "[", "*/..", "../w*/z", "**/*/*", f"{work}/*"]:  # fmt: skip
        expected = {Path(found) for found in glob.glob(pattern, recursive=True)}  # noqa: PTH207
        assert set(patterns.matches(pattern)) == expected, pattern


def test_too_many_matches(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(work, FILES)
    monkeypatch.setattr(paths, "MAX_FILES", 3)
    with pytest.raises(InputError, match=r"\*\*: holds more than 3 files"):
        expand(["**"])
