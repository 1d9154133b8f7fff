"""What can be wrong with an input, as errors (no figures) and notices (figures, with a caveat).

MpgError                 anything a user can act on; has a hint and an exit status
├── UsageError           2: the command line or the configuration
├── InputError           3: a file; has a kind (see KINDS), a path and, where known, a place in it
└── UndecidedError       4: the question cannot be answered from what was given
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ERROR_KINDS = (
    "empty_input",
    "truncated_input",
    "corrupt_input",
    "not_a_trace",
    "no_device_activity",
    "device_records_lost",
    "needs_export",
    "duplicate_rank",
    "locked",
    "no_jobs",
    "naive_time",
    "unsupported_format",
    "unsupported_encoding",
    "unsupported_accelerator",
    "not_found",
    "unreadable",
    "write_failed",
)

SHOWN = 200


class MpgError(Exception):
    """An error the user can act on: `message` says what and where, `hint` what to do next."""

    exit_status = 70
    label = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MpgError):
    """The command line or the configuration asks for something that makes no sense (status 2)."""

    exit_status = 2
    label = "error[usage]"


class UndecidedError(MpgError):
    """The inputs are fine but cannot answer the question (status 4)."""

    exit_status = 4
    label = "error[undecided]"


class InputError(MpgError):
    """A file that cannot be used (status 3): `kind` is one of ERROR_KINDS, `where` an offset or line."""

    exit_status = 3

    def __init__(self, kind: str, path: str, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(": ".join(part for part in (path, where, message) if part), hint=hint)
        self.kind = kind
        self.path = path
        self.label = f"error[{kind}]"


@dataclass(frozen=True, slots=True)
class Notice:
    """A caveat on figures that are given all the same: counted, and tied to the source it concerns."""

    kind: str
    message: str
    count: int = 1
    source: str = ""


def listed(notices: Iterable[Notice]) -> str:
    """The JSON that the column `notices` of the table `sources` has: what is said, without where."""
    return json.dumps([{"kind": n.kind, "message": n.message, "count": n.count} for n in notices])


def shown(value: object) -> str:
    """`value` as Python writes it, for a message: at most SHOWN characters of it.

    A number of thousands of digits and a list that is nested as deep have no such form.
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a very large {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
