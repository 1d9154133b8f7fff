"""Events one by one, from text that does not decode whole: cut, damaged, or with more than events in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mpg_parsers.chrome.repair import Repaired, repair_object
from mpg_parsers.chrome.syntax import BAD_JSON, NEXT_EVENT, SPACE, is_open, value_end

Events = list[Any]
Decode = Callable[[bytes], Events]

BETWEEN = re.compile(rb"[ \t\r\n,]*")
ARRAY_END = re.compile(rb"\}[ \t\r\n]*(?=\])")
ENDS_TRIED = 8
LIMITS_TRIED = 16


class DamagedError(Exception):
    """Text that is no JSON and has no single reading: `offset` into the text, and what was found."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


@dataclass(frozen=True, slots=True)
class Walked:
    """Events up to `end`: the end of the text, the `]` after the events, or an event that is still open
    there.

    Each batch has events of one type, if the decoder gives some.
    """

    batches: list[Events]
    end: int


def decode_whole(decode: Decode, data: bytes) -> Events | None:
    """The events of faultless text, None if it is not that."""
    try:
        return decode(b"[%b]" % data)
    except BAD_JSON:
        return None


def decode_last(decode: Decode, data: bytes) -> Walked | None:
    """The events of a faultless last block, up to the `]` after them; None if that is not easily found."""
    for match in reversed(list(ARRAY_END.finditer(data))[-ENDS_TRIED:]):
        events = decode_whole(decode, data[: match.start() + 1])
        if events is not None:  # all brackets are closed, so the `]` that follows is the array's
            return Walked([events], match.end())
    return None


class Walker:
    """Walks over events; counts what it mends in `fixes`."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self.fixes: Counter[str] = Counter()

    def walk(self, data: bytes, *, last: bool) -> Walked:
        """The events that `data` starts with; `last` says that nothing follows it.

        Raises DamagedError where it is damaged beyond repair.
        """
        out: list[Events] = []
        at = self._between(data, 0, wanted=0)
        while at < len(data) and data[at : at + 1] != b"]":
            found = self._event(data, at, last=last)
            if found is None:
                break
            events, at = found
            if out and type(out[-1][0]) is type(events[0]):
                out[-1] += events
            else:
                out.append(events)
            at = self._between(data, at, wanted=1)
        return Walked(out, at)

    def _between(self, data: bytes, at: int, *, wanted: int) -> int:
        """The place after white space and commas, of which `wanted` belong between events."""
        match = BETWEEN.match(data, at)
        end = match.end() if match else at
        if end < len(data):
            wanted = 0 if data[end : end + 1] == b"]" else wanted
            self._mend("comma", abs(data.count(b",", at, end) - wanted))
        return end

    def _event(self, data: bytes, at: int, *, last: bool) -> tuple[Events, int] | None:
        """(events, end) of the event at `at`, repaired if need be; None if it is still open."""
        if not data.startswith((b"{", b"null"), at):
            raise DamagedError(at, f"expected an event, found {excerpt(data[at:])}")
        end = value_end(data, at)
        if end is not None and (events := decode_whole(self._decode, data[at:end])) is not None:
            return events, end
        if end is None and is_open(data[at:]):
            return None
        found = _repair(data, at)
        if found.open and not (last and _goes_on(data, at)):
            return None
        events = decode_whole(self._decode, found.text) if found.fixes else None
        if events is None:
            message = f"an event that is not JSON and has no single reading: {excerpt(data[at:])}"
            raise DamagedError(at, message)
        self.fixes.update(found.fixes)
        return events, at + found.length

    def _mend(self, word: str, count: int) -> None:
        if count:
            self.fixes[word] += count


def _repair(data: bytes, at: int) -> Repaired:
    """The damaged event at `at`. It ends before the next one; what looks like one may be in it."""
    following = islice(NEXT_EVENT.finditer(data, at), LIMITS_TRIED)
    for limit in (*(match.start() + 1 for match in following), len(data)):
        found = repair_object(data[at:limit])
        if not found.open:
            break
    return found


def _goes_on(data: bytes, at: int) -> bool:
    """Whether the text after a damaged event that does not end is more than the rest of a cut event."""
    return NEXT_EVENT.search(data, at) is not None or data.rstrip(SPACE).endswith((b"}", b"]"))


def excerpt(data: bytes) -> str:
    """The beginning of `data` for a message."""
    return repr(data[:40].decode("utf-8", "replace"))
