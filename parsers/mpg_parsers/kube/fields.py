"""Fields of a Kubernetes object, whatever a damaged or hand-made file has in their place."""

from __future__ import annotations

import calendar
import json
import re
from functools import lru_cache
from typing import Any

Object = dict[str, Any]
RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):?(\d\d))"
)
SECOND = 1_000_000_000
MAX_INT, MAX_COUNT, CENTURY = (1 << 63) - 1, (1 << 31) - 1, 100 * 366 * 86400
MAX_LABELS, MAX_LABEL_TEXT, MAX_MESSAGE = 64, 256, 2000
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity
QUANTITY = re.compile(r"([+-]?\d{1,30})(?:\.(\d{0,30}))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?")
POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {f"{letter}i": 1 << (10 * at) for at, letter in enumerate("KMGTPE", 1)}


def node_at(value: Any, *path: str) -> Object:  # noqa: ANN401 - any JSON
    """The object at the path, empty where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def objects_at(value: Any, *path: str) -> list[Object]:  # noqa: ANN401 - any JSON
    """The objects of the list at the path."""
    found = node_at(value, *path[:-1]).get(path[-1])
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def text_at(value: Any, *path: str) -> str:  # noqa: ANN401 - any JSON
    """The text at the path, "" where there is none."""
    found = node_at(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def texts_at(value: Any, *path: str) -> list[str]:  # noqa: ANN401 - any JSON
    """The texts of the list at the path."""
    found = node_at(value, *path[:-1]).get(path[-1])
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def int_at(value: Any, *path: str) -> int | None:  # noqa: ANN401 - any JSON
    """The whole number at the path."""
    found = node_at(value, *path[:-1]).get(path[-1])
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if -MAX_INT <= found <= MAX_INT else None


def count_at(value: Any, *path: str) -> int | None:  # noqa: ANN401 - any JSON
    """The count at the path, which is of 32 bits; None for what is negative or larger."""
    found = int_at(value, *path)
    return found if found is not None and 0 <= found <= MAX_COUNT else None


def seconds_at(value: Any, *path: str) -> int | None:  # noqa: ANN401 - any JSON
    """The length of time at the path, in ns; None for what is negative, or longer than a century."""
    found = int_at(value, *path)
    return found * SECOND if found is not None and 0 <= found <= CENTURY else None


def labels_of(value: Object) -> dict[str, str]:
    """metadata.labels."""
    return {key: text for key, text in node_at(value, "metadata", "labels").items() if isinstance(text, str)}


def annotations_of(value: Object) -> dict[str, str]:
    """metadata.annotations."""
    found = node_at(value, "metadata", "annotations")
    return {key: text for key, text in found.items() if isinstance(text, str)}


def listed_labels(labels: dict[str, str]) -> str | None:
    """Labels as a JSON object of bounded size; None where there are none."""
    kept = {key: labels[key][:MAX_LABEL_TEXT] for key in sorted(labels)[:MAX_LABELS]}
    return as_json(kept) if kept else None


def as_json(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Compact JSON text with sorted keys, the form of lists and objects in the tables."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def uid_of(value: Object, kind: str) -> str:
    """metadata.uid, or kind/namespace/name of what has none."""
    named = "/".join((kind, text_at(value, "metadata", "namespace"), text_at(value, "metadata", "name")))
    return text_at(value, "metadata", "uid") or named


@lru_cache(maxsize=1 << 16)
def instant(text: str) -> int | None:
    """Unix nanoseconds of an RFC 3339 time (Time or MicroTime), None for anything else and for year 1."""
    found = RFC3339.fullmatch(text)
    if not found:
        return None
    *date, fraction, sign, hours, minutes = found.groups()
    year, month, day, hour, minute, second = map(int, date)
    offset = (int(hours) * 60 + int(minutes)) * 60 * (-1 if sign == "-" else 1) if sign else 0
    if not (1970 <= year < 2255 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 25 and minute < 60):
        return None
    seconds = calendar.timegm((year, month, 1, hour, minute, second)) + (day - 1) * 86400 - offset
    return seconds * SECOND + int((fraction or "0").ljust(9, "0")) if seconds > 0 else None


def quantity(value: Any) -> int | None:  # noqa: ANN401 - any JSON
    """A resource quantity such as "8", 8 or "1k", rounded up to a whole number as Kubernetes does."""
    found = QUANTITY.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if not found or isinstance(value, bool):
        return None
    whole, fraction, suffix, exponent = found.groups()
    fraction = fraction or ""
    digits, power = int(whole + fraction), int(exponent or POWERS.get(suffix, 0)) - len(fraction)
    digits *= BINARY.get(suffix, 1)
    if power > 40:
        return None
    amount = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    return amount if 0 <= amount <= MAX_INT else None


def conditions_of(value: Object) -> dict[str, Object]:
    """status.conditions by type."""
    return {text_at(item, "type"): item for item in objects_at(value, "status", "conditions")}


def holds(condition: Object | None) -> bool:
    """Whether a condition is there and true."""
    return condition is not None and condition.get("status") == "True"
