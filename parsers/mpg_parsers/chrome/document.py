"""The JSON document around the events: what is left of a trace when its event array is emptied."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mpg_parsers.chrome.repair import repair_object
from mpg_parsers.chrome.syntax import is_open
from mpg_parsers.chrome.walk import DamagedError, excerpt

if TYPE_CHECKING:
    from collections import Counter

SPACE = " \t\r\n"
MAX_REST = 1000
EVENTS_KEY = re.compile(r'"traceEvents"[ \t\r\n]*:')


def read_document(text: bytes, fixes: Counter[str]) -> dict[str, Any] | None:
    """The top-level object ({} for a list), None if the text ends before it does. What is mended is counted
    in `fixes`.

    Raises DamagedError (offset 0: the place is not known) where it has no single reading, where the list that
    was emptied is not the one list of events, or where something else follows.
    """
    start = len(text) - len(text.lstrip(SPACE.encode()))
    try:
        body = text[start:].decode()
        document, end = _DECODER.raw_decode(body)
        rest = body[end:]
    except (ValueError, RecursionError):
        if is_open(text):
            return None
        document, length = _repaired(text[start:], fixes)
        rest = text[start + length :].decode("utf-8", "replace")
    _check_rest(rest, fixes)
    _check_events(document, text)
    return document if isinstance(document, dict) else {}


def _repaired(text: bytes, fixes: Counter[str]) -> tuple[Any, int]:
    """The one reading of a damaged document, and how much of the text it stands for."""
    found = repair_object(text, event=False)
    try:
        if found.fixes:
            document = json.loads(found.text)
            fixes.update(found.fixes)
            return document, found.length
    except (ValueError, RecursionError):
        pass  # a number of thousands of digits, which Python refuses to read
    raise DamagedError(0, "the metadata around the events is not JSON and has no single reading") from None


def _check_rest(rest: str, fixes: Counter[str]) -> None:
    """That nothing follows the document but words of a log and the like: nothing that could be JSON."""
    left = rest.strip(SPACE)
    if any(char in left for char in '{["') or len(left.strip("\0")) > MAX_REST:
        raise DamagedError(0, f"the document ends, but more follows: {excerpt(left.encode())}")
    if left:
        fixes["text after the end" if left.strip("\0" + SPACE) else "run of NUL bytes"] += 1


def _check_events(document: object, text: bytes) -> None:
    """That the emptied list is the top-level list of events, and the only one."""
    if document == []:
        return
    if not isinstance(document, dict) or document.get("traceEvents") != []:
        raise DamagedError(0, "the list of traceEvents is not where it belongs, at the top level")
    if len(EVENTS_KEY.findall(text.decode("utf-8", "replace"))) > 1:
        raise DamagedError(0, "more than one list of traceEvents")


def _refuse_constant(name: str) -> Any:  # noqa: ANN401 - the signature json.JSONDecoder wants
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
