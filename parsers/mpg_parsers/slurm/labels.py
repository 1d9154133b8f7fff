"""Labels that users keep in a job's comment: model=llama;team=nlp."""

from __future__ import annotations

import json
import re
from functools import lru_cache

_PAIR = re.compile(r"\s*([A-Za-z_][\w.\-/]{0,62})\s*=\s*(.*?)\s*")
SEPARATORS = (";", ",", "|")
LONGEST = 4096


@lru_cache(maxsize=8192)
def of_comment(comment: str | None, wckey: str | None = None) -> str | None:
    """The labels as a JSON object, with the wckey; None if the comment is not of that form and there is no key."""
    labels = _pairs(comment or "")
    key = (wckey or "").strip().lstrip("*")
    if key and key != "(null)":
        labels.setdefault("wckey", key)
    return json.dumps(labels) if labels else None


def _pairs(comment: str) -> dict[str, str]:
    """All parts of the comment are pairs, or it is prose."""
    if "=" not in comment or len(comment) > LONGEST:
        return {}
    separator = next((mark for mark in SEPARATORS if mark in comment), SEPARATORS[0])
    matches = [_PAIR.fullmatch(part) for part in comment.split(separator) if part.strip()]
    return {match[1]: match[2] for match in matches if match} if all(matches) else {}
