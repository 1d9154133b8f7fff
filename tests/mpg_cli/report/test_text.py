from __future__ import annotations

import pytest
from rich.cells import cell_len

from mpg_cli.report import layout, text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain [x] | <b>", "plain [x] | <b>"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31m\x07\x00", r"\x1b[31m\x07\x00"),
        ("\x9b31m\x85", r"\x9b31m\x85"),
        ("\u202etxt.exe\u2066", r"\u202etxt.exe\u2066"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\ud800", r"\ud800"),
        ("a\u00a0b\u2028", r"a\xa0b\u2028"),
        ("e\u0301", "é"),
        ("x\u0301\u0301", r"x\u0301\u0301"),
        ("\U000e0041", r"\U000e0041"),
        ("核µ", "核µ"),
    ],
)
def test_escape(raw: str, shown: str) -> None:
    assert text.escape(raw) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("ok", "ok"),
        ("12 µs · a–b — c…", "12 us | a-b - c..."),
        ("2 × é", r"2 x \xe9"),
        ("a › b", "a > b"),
        ("核", r"\u6838"),
    ],
)
def test_to_ascii(raw: str, shown: str) -> None:
    assert text.to_ascii(raw) == shown


@pytest.mark.parametrize(("limit", "expected"), [(6, "abcdef"), (5, "ab…ef"), (4, "ab…f"), (1, "…"), (0, "")])
def test_cut(limit: int, expected: str) -> None:
    assert text.cut("abcdef", limit) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sgemm_128x64_nn", "sgemm_128x64_nn"),
        ("void at::f<4, at::g<float>>(int, char*)", "f<4, g<float>>(…)"),
        ("void at::(anonymous namespace)::f<int>(a::b*)", "f<int>(…)"),
        ("at::native::f", "f…"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (…)"),
        ("f<{lambda(int)#1}>(g(int))", "f<{lambda(int)#1}>(…)"),
        (")", ")"),
        ("(x)", "(x)"),
        ("a)", "a)"),
    ],
)
def test_abbreviate(name: str, expected: str) -> None:
    assert text.abbreviate(name) == expected


def test_clean_bounds_the_escaped_text() -> None:
    assert len(text.clean("\x1b" * 100_000)) == text.LIMIT


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], ""), ([3], "3"), ([2, 0, 1, 5], "0–2, 5"), (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14, …")],
)
def test_ranges(numbers: list[int], expected: str) -> None:
    assert text.ranges(numbers) == expected


@pytest.mark.parametrize(
    ("raw", "width", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "ab…ef"),
        ("核核核核", 5, "核…核"),
        ("核核核核", 4, "核…"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
    ],
)
def test_shorten(raw: str, width: int, expected: str) -> None:
    assert layout.shorten(raw, width) == expected
    assert cell_len(expected) <= width


@pytest.mark.parametrize(
    ("raw", "width", "expected"),
    [
        ("", 10, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("a · b", 3, ["a ·", "b"]),
        ("loss 9.9 % of it", 8, ["loss", "9.9 % of", "it"]),
        ("abcdefgh i", 3, ["abc", "def", "gh", "i"]),
        ("核核", 1, ["核", "核", ""]),
    ],
)
def test_wrap(raw: str, width: int, expected: list[str]) -> None:
    assert layout.wrap(raw, width) == expected


@pytest.mark.parametrize(
    ("length", "blocks", "ascii_bar"),
    [
        (0.0, "", ""),
        (0.5, "█████", "#####"),
        (0.51, "█████▏", "#####"),
        (1.0, "█" * 10, "#" * 10),
        (9.0, "█" * 10, "#" * 10),
    ],
)
def test_bar(length: float, blocks: str, ascii_bar: str) -> None:
    assert layout.bar(length, 10, ascii_only=False) == blocks
    assert layout.bar(length, 10, ascii_only=True) == ascii_bar
