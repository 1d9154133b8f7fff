"""Damaged JSON objects that have one possible reading.

The text is parsed by a forgiving reader. The only thing it can be in doubt about is where a string with
unescaped quotes ends; all ends that fit what must follow are tried, and the object is repaired only if
exactly one of them makes a whole object. What is mended, in the words of the warning:

    control character         a raw one inside a string
    unescaped quote           a double quote inside a string
    stray backslash           one that starts no JSON escape (a Windows path)
    half of a surrogate pair  becomes U+FFFD
    invalid UTF-8             becomes U+FFFD, byte by byte
    NaN or the like           Infinity, N/A, None, where a number or null belongs: becomes null
    comma                     one too many
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from mpg_parsers.chrome.syntax import EVENT_KEYS

MAX_LENGTH = 1 << 17
MAX_DEPTH = 64
MAX_ENDS = 8
MAX_READINGS = 64

SPACE = re.compile(r"[ \t\r\n]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[ \t\r\n,}\]]|\Z)")
LITERAL = re.compile(r"(?:true|false|null)(?=[ \t\r\n,}\]]|\Z)")
NOT_A_NUMBER = re.compile(
    r"(?:[+-]?(?:nan(?:\(\w*\))?|inf(?:inity)?)|-?1\.#\w+|n/a|none|undefined)(?=[ \t\r\n,}\]]|\Z)",
    re.IGNORECASE,
)
CUT_SCALAR = re.compile(r"[-+.#/\w]+\Z")
QUOTE_OR_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
# what must follow the end of a string, by the place the string stands in
FOLLOWS = {
    "key": re.compile(r"\s*:"),
    "field": re.compile(rf'\s*(?:,\s*(?:"(?:{EVENT_KEYS})"\s*:|\}})|\}}\s*(?:[,\]{{]|\Z))'),
    "value": re.compile(r'\s*(?:,\s*(?:"[^"]*"\s*:|\})|\})'),
    "item": re.compile(r"\s*[,\]]"),
}
# what no string in that place may contain: it would have swallowed its neighbour. A quote right after a comma
# is the neighbour's if it is the first one inside: then the string's own closing quote was lost.
SWALLOWED = {
    "key": re.compile(r'"\s*[:,]'),
    "field": re.compile(rf'"(?:{EVENT_KEYS})"\s*:|\A[^"]*,\s*"[^"]*"\s*:'),
    "value": re.compile(r'"\s*,\s*"[^"]*"\s*:|\A[^"]*,\s*"[^"]*"\s*:'),
    "item": re.compile(r'"\s*,\s*"|\A[^"]*,\s*"'),
}
BODY = re.compile(
    r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})(?:(?<=u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2})?'
    r'|\\|"|[\x00-\x1f]|[\ud800-\udfff]'
)
LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True)
class Repaired:
    """A whole JSON object, the number of bytes of the damaged text it stands for, and what was mended.

    Without fixes it is none: there is no reading, or more than one, or the text ends before the object does
    (`open`).
    """

    text: bytes = b""
    length: int = 0
    fixes: Counter[str] = field(default_factory=Counter)
    open: bool = False


def repair_object(data: bytes, *, event: bool = True) -> Repaired:
    """The one reading of the damaged object that `data` starts with.

    `event` says that the object is a trace event, whose own keys are known; that helps to find the ends of
    strings.
    """
    if len(data) > MAX_LENGTH:
        return Repaired()
    text = data.decode("utf-8", "surrogateescape")
    effort = _Effort(1000 + 2 * len(text))
    found: dict[str, Repaired] = {}
    is_open = False
    todo: list[tuple[int, ...]] = [()]
    for _ in range(MAX_READINGS):
        if not todo or len(found) > 1:
            break
        choices = todo.pop()
        reading = _Reading(text, choices, effort, event=event)
        if reading.run():
            repaired = reading.repaired()
            found[repaired.text.decode()] = repaired
        is_open = is_open or reading.open
        todo += reading.alternatives(len(choices))
    if todo or len(found) > 1 or effort.left <= 0:
        return Repaired()
    return next(iter(found.values()), Repaired(open=is_open))


@dataclass(slots=True)
class _Effort:
    """Quotes that may still be looked at: hostile text could keep the search busy for hours."""

    left: int


class _NoReadingError(Exception):
    pass


class _Reading:
    """One attempt; `choices` says which end to take for the first strings that have several."""

    def __init__(self, text: str, choices: tuple[int, ...], effort: _Effort, *, event: bool) -> None:
        self._text, self._at, self._out = text, 0, list[str]()
        self._fixes: Counter[str] = Counter()
        self._choices = choices
        self._taken: list[tuple[int, int]] = []  # (chosen, number of candidates)
        self._effort = effort
        self._event = event
        self.open = False

    def run(self) -> bool:
        """Whether the text starts with an object under these choices; `open` if it only may be one."""
        try:
            self._object(1)
        except _NoReadingError:
            return False
        return True

    def repaired(self) -> Repaired:
        """The result of a run that succeeded."""
        text = "".join(self._out).encode("utf-8", "replace")
        return Repaired(text, len(self._text[: self._at].encode("utf-8", "surrogateescape")), self._fixes)

    def alternatives(self, fixed: int) -> list[tuple[int, ...]]:
        """The choices that differ from this run's in one string after the first `fixed`."""
        out = []
        for i, (_, count) in enumerate(self._taken[fixed:], fixed):
            if count > 1:
                prefix = tuple(chosen for chosen, _ in self._taken[:i])
                out += [(*prefix, other) for other in range(1, count)]
        return out

    def _next(self) -> str:
        """The next character that is not white space."""
        match = SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        if self._at == len(self._text):
            self._fail(is_open=True)
        return self._text[self._at]

    def _fail(self, *, is_open: bool = False) -> NoReturn:
        self.open = is_open
        raise _NoReadingError

    def _take(self, char: str) -> None:
        if self._next() != char:
            self._fail()
        self._at += 1
        self._out.append(char)

    def _object(self, depth: int) -> None:
        self._take("{")
        while self._more("}"):
            self._string("key")
            self._take(":")
            self._value("field" if depth == 1 and self._event else "value", depth)

    def _array(self, depth: int) -> None:
        self._take("[")
        while self._more("]"):
            self._value("item", depth)

    def _more(self, end: str) -> bool:
        """Whether another member follows; commas are dealt with."""
        commas = 0
        while self._next() == ",":
            self._at += 1
            commas += 1
        first = self._out[-1] in "{["
        if self._next() == end:
            self._at += 1
            self._out.append(end)
            self._mend("comma", commas)
            return False
        if not first and not commas:
            self._fail()
        if not first:
            self._out.append(",")
        self._mend("comma", commas - (0 if first else 1))
        return True

    def _value(self, place: str, depth: int) -> None:
        char = self._next()
        if depth > MAX_DEPTH:
            self._fail()
        if char == "{":
            self._object(depth + 1)
        elif char == "[":
            self._array(depth + 1)
        elif char == '"':
            self._string(place)
        else:
            self._scalar()

    def _scalar(self) -> None:
        match = NUMBER.match(self._text, self._at) or LITERAL.match(self._text, self._at)
        if match is None:
            match = NOT_A_NUMBER.match(self._text, self._at)
            if match is None:
                self._fail(is_open=CUT_SCALAR.match(self._text, self._at) is not None)
            self._mend("NaN or the like", 1)
            self._out.append("null")
        else:
            self._out.append(match[0])
        self._at = match.end()

    def _string(self, place: str) -> None:
        if self._next() != '"':
            self._fail()
        ends = self._ends(place)
        index = len(self._taken)
        chosen = self._choices[index] if index < len(self._choices) else 0
        if chosen >= len(ends):  # the effort ran out, which left fewer than at the first reading
            self._fail()
        self._taken.append((chosen, len(ends)))
        body = self._text[self._at + 1 : ends[chosen]]
        self._at = ends[chosen] + 1
        self._out.append(f'"{BODY.sub(self._mend_character, body)}"')

    def _ends(self, place: str) -> list[int]:
        """The places where the string that starts here can end, at least one."""
        start, out, escaped = self._at + 1, list[int](), list[int]()
        cut = True
        for match in QUOTE_OR_ESCAPE.finditer(self._text, start):
            self._effort.left -= 1
            end = match.end() - 1
            found = out if match[0] == '"' else escaped
            if self._text[end] != '"' or (found and found is escaped):
                continue
            if FOLLOWS[place].match(self._text, end + 1):
                if self._effort.left < 0 or len(out) == MAX_ENDS or self._swallowed(place, start, end):
                    cut = False
                    break
                found.append(end)
        if not out and not escaped:
            self._fail(is_open=cut and not self._swallowed(place, start, len(self._text)))
        return out or escaped

    def _swallowed(self, place: str, start: int, end: int) -> bool:
        return SWALLOWED[place].search(self._text[start:end]) is not None

    def _mend_character(self, match: re.Match[str]) -> str:
        found = match[0]
        if len(found) > 1:
            if len(found) == 6 and LONE_SURROGATE.fullmatch(found):
                return self._mended("half of a surrogate pair", "\\ufffd")
            return found
        if found == "\\":
            return self._mended("stray backslash", "\\\\")
        if found == '"':
            return self._mended("unescaped quote", '\\"')
        if found < " ":
            return self._mended("control character", f"\\u{ord(found):04x}")
        return self._mended("invalid UTF-8", "\\ufffd")

    def _mended(self, word: str, replacement: str) -> str:
        self._mend(word, 1)
        return replacement

    def _mend(self, word: str, count: int) -> None:
        if count > 0:
            self._fixes[word] += count
