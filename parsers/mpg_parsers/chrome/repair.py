"""Damaged JSON objects that have one possible reading.

The text is parsed by a forgiving reader. The only thing it can be in doubt about is where a string with unescaped
quotes ends; all ends that fit what must follow are tried, and the object is repaired only if exactly one of them
makes a whole object. What is mended, by the word used in the warning:

    control    a raw control character inside a string
    quote      a double quote inside a string, not escaped
    backslash  a backslash that starts no JSON escape (a Windows path)
    surrogate  half of a UTF-16 pair
    UTF-8      bytes that are not UTF-8
    NaN        NaN, Infinity, N/A, None and the like where a number or null belongs
    comma      a comma too many or, between objects, one too few
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

EVENT_KEYS = r"(?:ph|name|cat|ts|pid|tid|dur|id|args|s|bp|cname|tts|tdur|id2|scope|bind_id|sf)"
MAX_CANDIDATES = 8
MAX_READINGS = 64
MAX_DEPTH = 64
MAX_LENGTH = 1 << 20

SPACE = re.compile(r"[ \t\r\n]*")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\s,}\]]|$)")
LITERAL = re.compile(r"(?:true|false|null)(?=[\s,}\]]|$)")
NOT_A_NUMBER = re.compile(
    r"(?:[+-]?(?:nan(?:\(\w*\))?|inf(?:inity)?)|-?1\.#\w+|n/a|none|undefined)(?=[\s,}\]]|$)", re.IGNORECASE
)
QUOTE_OR_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
# what must follow the end of a string, by the place the string stands in
FOLLOWS = {
    "key": re.compile(r"\s*:"),
    "field": re.compile(rf'\s*(?:,\s*(?:"{EVENT_KEYS}"\s*:|\}})|\}}\s*(?:[,\]{{]|$))'),
    "value": re.compile(r'\s*(?:,\s*(?:"[^"]*"\s*:|\})|\})'),
    "item": re.compile(r"\s*[,\]]"),
}
# what no string in that place may contain: it would have swallowed its neighbour
SWALLOWED = {
    "key": re.compile(r'"\s*:'),
    "field": re.compile(rf'"{EVENT_KEYS}"\s*:'),
    "value": re.compile(r'"\s*,\s*"[^"]*"\s*:'),
    "item": re.compile(r'"\s*,\s*"'),
}
BODY = re.compile(
    r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})(?:(?<=u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2})?'
    r'|\\|"|[\x00-\x1f]|[\ud800-\udfff]'
)
LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True)
class Repaired:
    """A whole JSON object, the number of bytes of the damaged text it stands for, and what was mended."""

    text: bytes
    length: int
    fixes: Counter[str]


class _NoReadingError(Exception):
    pass


def repair_object(data: bytes, *, event: bool = True) -> Repaired | None:
    """The one reading of the object that `data` starts with; None if there is none or more than one.

    `event` says that the object is a trace event, whose own keys are known; that helps to find the ends of strings.
    """
    if len(data) > MAX_LENGTH:
        return None
    text = data.decode("utf-8", "surrogateescape")
    found: dict[str, Repaired] = {}
    todo: list[tuple[int, ...]] = [()]
    for _ in range(MAX_READINGS):
        if not todo or len(found) > 1:
            break
        choices = todo.pop()
        reading = _Reading(text, choices, event=event)
        if reading.run():
            length = len(text[: reading.at].encode("utf-8", "surrogateescape"))
            fixed = "".join(reading.out)
            found[fixed] = Repaired(fixed.encode("utf-8", "replace"), length, reading.fixes)
        todo += reading.alternatives(len(choices))
    return next(iter(found.values())) if len(found) == 1 and not todo else None


class _Reading:
    """One attempt; `choices` says which end to take for the first strings that have several."""

    def __init__(self, text: str, choices: tuple[int, ...], *, event: bool) -> None:
        self.text, self.at, self.out = text, 0, list[str]()
        self.fixes: Counter[str] = Counter()
        self._choices = choices
        self._taken: list[tuple[int, int]] = []  # (chosen, number of candidates)
        self._event = event

    def run(self) -> bool:
        """Whether the text starts with an object under these choices."""
        try:
            self._object(1)
        except (_NoReadingError, IndexError):
            return False
        return True

    def alternatives(self, fixed: int) -> list[tuple[int, ...]]:
        """The choices that differ from this run's in one string after the first `fixed`."""
        out = []
        for i in range(fixed, len(self._taken)):
            prefix = tuple(chosen for chosen, _ in self._taken[:i])
            out += [(*prefix, other) for other in range(1, self._taken[i][1])]
        return out

    def _space(self) -> str:
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def _take(self, char: str) -> None:
        if self._space() != char:
            raise _NoReadingError
        self.at += 1
        self.out.append(char)

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
        while self._space() == ",":
            self.at += 1
            commas += 1
        first = self.out[-1] in "{["
        if self._space() == end:
            self.at += 1
            self.out.append(end)
            self._mend("comma", commas)
            return False
        if not first and not commas:
            raise _NoReadingError
        if not first:
            self.out.append(",")
        self._mend("comma", commas - (0 if first else 1))
        return True

    def _value(self, place: str, depth: int) -> None:
        char = self._space()
        if depth > MAX_DEPTH or not char:
            raise _NoReadingError
        if char == "{":
            self._object(depth + 1)
        elif char == "[":
            self._array(depth + 1)
        elif char == '"':
            self._string(place)
        else:
            self._scalar()

    def _scalar(self) -> None:
        match = NUMBER.match(self.text, self.at) or LITERAL.match(self.text, self.at)
        if match is None:
            match = NOT_A_NUMBER.match(self.text, self.at)
            if match is None:
                raise _NoReadingError
            self._mend("NaN", 1)
            self.out.append("null")
        else:
            self.out.append(match[0])
        self.at = match.end()

    def _string(self, place: str) -> None:
        if self._space() != '"':
            raise _NoReadingError
        ends = self._ends(place)
        if not ends:
            raise _NoReadingError
        index = len(self._taken)
        chosen = self._choices[index] if index < len(self._choices) else 0
        self._taken.append((chosen, len(ends)))
        body = self.text[self.at + 1 : ends[chosen]]
        self.at = ends[chosen] + 1
        self.out.append(f'"{BODY.sub(self._mend_character, body)}"')

    def _ends(self, place: str) -> list[int]:
        """The places where the string that starts here can end."""
        start, out = self.at + 1, list[int]()
        escaped = list[int]()
        follows, swallowed = FOLLOWS[place], SWALLOWED[place]
        for match in QUOTE_OR_ESCAPE.finditer(self.text, start):
            end = match.end() - 1
            if self.text[end] != '"' or not follows.match(self.text, end + 1):
                continue
            if swallowed.search(self.text, start - 1, end + 1) and swallowed.search(self.text[start:end]):
                break
            (out if match[0] == '"' else escaped).append(end)
            if len(out) == MAX_CANDIDATES:
                break
        return out or escaped[:1]

    def _mend_character(self, match: re.Match[str]) -> str:
        token = match[0]
        if len(token) > 1:
            if len(token) == 6 and LONE_SURROGATE.fullmatch(token):
                return self._mended("surrogate", "\\ufffd")
            return token
        if token == "\\":
            return self._mended("backslash", "\\\\")
        if token == '"':
            return self._mended("quote", '\\"')
        if token < " ":
            return self._mended("control", f"\\u{ord(token):04x}")
        return self._mended("UTF-8", "\\ufffd")

    def _mended(self, word: str, replacement: str) -> str:
        self._mend(word, 1)
        return replacement

    def _mend(self, word: str, count: int) -> None:
        if count > 0:
            self.fixes[word] += count
