"""Places in JSON text, found without decoding it."""

from __future__ import annotations

import re

import msgspec

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError)
SPACE = b" \t\r\n"  # what JSON allows; \s and strip() would take more
EVENT_KEYS = "ph|name|cat|ts|pid|tid|dur|id|args|s|bp|cname|tts|tdur|id2|scope|bind_id|sf"
# where the next event may begin, as far as its first key tells
NEXT_EVENT = re.compile(rb'\}[ \t\r\n]*,[ \t\r\n]*(?=\{[ \t\r\n]*"(?:%b)"[ \t\r\n]*:)' % EVENT_KEYS.encode())

# what other JSON hardly has: the keys of a trace's header, and of an event that has a phase
TRACE_SIGN = re.compile(
    rb'"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo)"[ \t\r\n]*:'
    rb'|"ph"[ \t\r\n]*:[ \t\r\n]*"'
)

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_BRACKETS = re.compile(_STRING + rb'|[{}\[\]"]', re.DOTALL)
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def value_end(data: bytes, start: int) -> int | None:
    """The end of the object, array or null that starts at `start`; None where it does not end in `data`."""
    if data.startswith(b"null", start):
        return start + 4
    depth = 0
    for match in _BRACKETS.finditer(data, start):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return match.end()
        elif token == b'"':
            return None  # a string that does not end here
    return None


def is_open(data: bytes) -> bool:
    """Whether `data` is the beginning of a JSON value, faultless as far as it goes."""
    try:
        _skip(data)
    except msgspec.DecodeError as error:
        return str(error) == "Input data was truncated"
    except RecursionError:
        pass
    return False
