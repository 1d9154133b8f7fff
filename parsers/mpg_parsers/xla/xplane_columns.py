"""Many small protobuf messages as columns, at the speed of protobuf's C decoder.

Messages that are put one after the other are one message, in which every field is repeated: decoding that gives a list
per field instead of an object per message. What such lists do not say is which message lacks a field. So a message of
marks stands before the first and after each of ours, with a value for every field that ours rarely has: what stands
before a mark is the value of the message (its last, where it repeats the field), or a mark where it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mpg_parsers.xla.messages import Field, classes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.message import Message


class AmbiguousError(Exception):
    """The marks cannot be told from values: decode these messages one by one."""


class Transposed:
    """Messages of one kind side by side.

    fields: number and mark by name. int: an integer of 64 bits (unsigned values wrap around), bytes: anything of
    variable length
    """

    def __init__(self, name: str, fields: Mapping[str, tuple[int, int | bytes]]) -> None:
        self.marks = {field: mark for field, (_, mark) in fields.items()}
        declared = [
            Field(field, number, "bytes" if isinstance(mark, bytes) else "int64", repeated=True)
            for field, (number, mark) in fields.items()
        ]
        self._class = classes(f"mpg.columns.{name}", {name: declared})[name]

    def decode(self, messages: Sequence[bytes], marked: Sequence[str]) -> Decoded:
        """The columns of `messages`; of fields that are not marked it is known only whether there are any.

        Raises google.protobuf.message.DecodeError.
        """
        marks = {field: self.marks[field] for field in marked}
        separator = self._class(**{field: [mark] for field, mark in marks.items()}).SerializeToString()
        joined = separator.join([b"", *messages, b""])
        return Decoded(self._class.FromString(joined), len(messages), marks)


class Decoded:
    """The columns of `count` messages, with the marks that are between them."""

    def __init__(self, message: Message, count: int, marks: Mapping[str, int | bytes]) -> None:
        self._message = message
        self._marks = marks
        self.count = count

    def has(self, field: str) -> bool:
        """Whether any message has the field."""
        return len(getattr(self._message, field)) > (self.count + 1 if field in self._marks else 0)

    def items(self, field: str) -> list[Any]:
        """A mark, and the values of each message with a mark after them."""
        found: list[Any] = getattr(self._message, field)[:]
        return found

    def column(self, field: str) -> pl.Series:
        """One value a message (Int64 or Binary), null where it has none. Raises AmbiguousError."""
        mark = self._marks[field]
        kind = pl.Binary if isinstance(mark, bytes) else pl.Int64
        values, marks = (pl.Series(field, found, dtype=kind) for found in (self.items(field), [mark]))
        before = values.head(-1).filter(values.slice(1) == marks)
        if before.len() != self.count:
            raise AmbiguousError(field)
        present = before != marks
        return before if present.all() else before.zip_with(present, pl.Series([None], dtype=kind))
