"""The events of XLA's Chrome JSON as columns: decoded with msgspec, times in picoseconds from the decimal text.

The exporter merges what an operation has in common with what one run of it has into one list of arguments, all of
them strings. Those of CONSTANTS go to the metadata, those of INTEGERS and TEXTS to the columns of events; a few are
of both kinds, as the file does not tell which it was.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import polars as pl
from msgspec import Raw

from mpg_parsers.errors import InputError
from mpg_parsers.kineto.columns import pack_lines
from mpg_parsers.xla.space import INTEGERS, TEXTS, Metadata, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CONSTANT_INTEGERS = (
    "model_flops", "flops", "bytes_accessed", "raw_bytes_accessed", "program_id", "symbol_id",
)  # fmt: skip
CONSTANT_TEXTS = (
    "hlo_category", "shape_with_layout", "tf_op", "source", "source_stack", "deduplicated_name",
)  # fmt: skip
CONSTANTS = (*CONSTANT_INTEGERS, *CONSTANT_TEXTS, "long_name")
OPAQUE = "<opaque bytes>"  # what the exporter writes for a value that is no text and no number

MAX_BYTES = 1 << 32  # of JSON that are read: all names and stack traces may differ, and are kept
MAX_THREADS = 50_000  # with a frame each
FLUSH_ROWS = 10_000
FLUSH_BATCHES = 32
PS_LIMIT = 1 << 62  # a time beyond this many ps is none
NO_TEXT = Raw(b"")

Text = str | None
Id = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None
Kind = tuple[Any, ...]  # (process, short name, values of CONSTANTS)

# in alphabetical order, as the file has them: msgspec guesses the next key
ARGUMENTS = tuple(sorted({*CONSTANTS, *INTEGERS, *TEXTS}))
Args: type[Any] = msgspec.defstruct("Args", [(name, Text, None) for name in ARGUMENTS], gc=False, frozen=True)
NO_ARGS = Args()


class Event(msgspec.Struct, gc=False, frozen=True):
    """What is read of an event; times as the file wrote them, in microseconds."""

    ph: Text = None
    pid: Id = None
    tid: Id = None
    ts: Raw = NO_TEXT
    dur: Raw = NO_TEXT
    name: Text = None
    args: Args = NO_ARGS  # type: ignore[valid-type]


_decode = msgspec.json.Decoder(list[Event]).decode
_decode_fields = msgspec.json.Decoder(list[dict[str, Raw] | None]).decode
_decode_args = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode


def decode(data: bytes) -> list[Event]:
    """The events of a JSON array of objects; nulls count as empty ones.

    Raises ValueError (msgspec.DecodeError, UnicodeDecodeError) or RecursionError where `data` is not that.
    """
    if not data.isascii():
        data.decode()  # msgspec does not check the strings it skips
    try:
        return _decode(data)
    except msgspec.ValidationError:
        return [_from_fields(fields or {}) for fields in _decode_fields(data)]


def _from_fields(fields: Mapping[str, Raw]) -> Event:
    """An event of any shape: fields of an unexpected type become null."""
    return Event(
        ph=_text(fields.get("ph")),
        pid=_id(fields.get("pid")),
        tid=_id(fields.get("tid")),
        ts=fields.get("ts", NO_TEXT),
        dur=fields.get("dur", NO_TEXT),
        name=_text(fields.get("name")),
        args=_args(fields.get("args", NO_TEXT)),
    )


def _args(raw: Raw) -> Any:  # noqa: ANN401 - a class made at run time
    try:
        found = _decode_args(raw)
    except msgspec.DecodeError:  # null, or anything but an object
        return NO_ARGS
    return Args(**{name: _text(found[name]) for name in ARGUMENTS if name in found})


def _text(raw: Raw | None) -> Text:
    """A string; the JSON text of a number."""
    value = _value(raw)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bytes(raw or b"").decode()
    return value if isinstance(value, str) else None


def _id(raw: Raw | None) -> int | None:
    value = _value(raw)
    whole = isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
    return value if whole else None


def _value(raw: Raw | None) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return None if raw is None else _decode_any(raw)
    except ValueError:  # a number beyond any double
        return None


def picoseconds(texts: Sequence[Any]) -> pl.Series:
    """Decimal microseconds as Int64 picoseconds, null where the text is no number or beyond 2**62 ps.

    The exporter writes ps / 1e6 as a double with 17 digits (`%.17g`): rounding to 6 decimals gives back the
    picosecond of times up to 2**33 us (2.4 h), and the nanosecond of any profile.
    """
    text = pl.Series("us", pack_lines(texts).decode("utf-8", "replace").split("\n"), dtype=pl.String)
    # the integer under a decimal of 6 places is the number of millionths
    ps = text.str.strip_chars('"').cast(pl.Decimal(38, 6), strict=False).to_physical().to_frame()
    return ps.select(pl.when(pl.col("us").abs() < PS_LIMIT).then(pl.col("us").cast(pl.Int64))).to_series()


def integers(name: str, texts: Sequence[Text]) -> pl.Series:
    """Texts of integers as Int64, null where one is none; unsigned ones above 2**63 wrap around."""
    column = pl.Series(name, texts, dtype=pl.String)
    signed = column.cast(pl.Int64, strict=False)
    if signed.null_count() == column.null_count():
        return signed
    unsigned = column.cast(pl.UInt64, strict=False).reinterpret(signed=True)
    return pl.select(pl.coalesce(signed, unsigned).alias(name)).to_series()


def metadata_of(kind: Kind) -> Metadata:
    """The metadata of a kind of events, named as in the xplane: the long name first, if there are two."""
    name, constants = kind[1] or "", dict(zip(CONSTANTS, kind[2:], strict=True))
    long_name = constants.pop("long_name")
    stats = {key: value for key, text in constants.items() if (value := _constant(key, text)) is not None}
    return Metadata(long_name, name, stats) if long_name else Metadata(name, "", stats)


def _constant(name: str, text: Text) -> Value | None:
    """The value of a constant, null if the exporter did not write it out."""
    if text is None or text == OPAQUE or name not in CONSTANT_INTEGERS:
        return None if text == OPAQUE else text
    try:
        return int(text) if len(text) <= 20 else None
    except ValueError:
        return _real(text)


def _real(text: str) -> float | None:
    try:
        return float(text)  # a count that was a double: six digits are left of it
    except ValueError:
        return None


class _BareKinds(dict[tuple[int | None, Text], int]):
    """The keys of kinds without constants, by (process, name): a shorter way to those of `kinds`."""

    def __init__(self, kinds: dict[Kind, int]) -> None:
        super().__init__()
        self._kinds = kinds

    def __missing__(self, key: tuple[int | None, Text]) -> int:
        kind = (*key, *(None,) * len(CONSTANTS))
        code = self[key] = self._kinds.setdefault(kind, len(self._kinds))
        return code


class EventTable:
    """Complete events (`ph` X) in columns, and the names of processes and threads; all other events are ignored.

    kinds: distinct (process, name, constants) with their key; texts: distinct texts with the code that stands for
    them in the columns. count: complete events seen; lost: those of them without a time, a duration or a thread.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: list[Event] = []
        self._batches = 0
        self._parts: list[pl.DataFrame] = []
        self._bytes = 0
        self.processes: dict[int, str] = {}
        self.threads: dict[tuple[int, int], str] = {}
        self.kinds: dict[Kind, int] = {}
        self._bare_kinds = _BareKinds(self.kinds)
        self.texts: dict[Text, int] = {None: 0}
        self.count = 0
        self.lost = 0

    def decode(self, data: bytes) -> list[Event]:
        """The events of a block. Raises as `decode` does, and InputError unsupported_format beyond MAX_BYTES."""
        events = decode(data)
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            hint = "give the .xplane.pb file that lies beside it, or profile a shorter stretch"
            message = f"more than {MAX_BYTES >> 30} GiB of JSON"
            raise InputError("unsupported_format", self._path, message, hint=hint)
        return events

    def take(self, events: Sequence[Event]) -> None:
        """Add the events of a block."""
        complete = [event for event in events if event.ph == "X"]
        self._waiting += complete
        if len(complete) < len(events):
            for event in events:
                if event.ph == "M":
                    self._name(event)
        self._batches += 1
        if len(self._waiting) >= FLUSH_ROWS or self._batches >= FLUSH_BATCHES:
            self._flush()

    def _name(self, event: Event) -> None:
        name = event.args.name  # type: ignore[attr-defined]
        if event.pid is None or name is None:
            return
        if event.name == "process_name":
            self.processes[event.pid] = name
        elif event.name == "thread_name" and event.tid is not None:
            self.threads[event.pid, event.tid] = name
            self._check_threads(len(self.threads))

    def _check_threads(self, count: int) -> None:
        if count > MAX_THREADS:
            hint = "profile a shorter stretch, or fewer processes at a time"
            raise InputError("unsupported_format", self._path, f"more than {MAX_THREADS} threads", hint=hint)

    def _flush(self) -> None:
        events, self._waiting, self._batches = self._waiting, [], 0
        if not events:
            return
        bare = [event.args is NO_ARGS for event in events]
        times = _times(events).with_row_index("row")
        mask = pl.Series(bare, dtype=pl.Boolean)
        full = [event for event in events if event.args is not NO_ARGS]
        ordered = pl.concat([times.filter(mask), times.filter(~mask)])
        columns = pl.concat([self._bare(list(compress(events, bare))), self._full(full)], how="diagonal")
        rows = ordered.hstack(columns).sort("row").drop("row")
        kept = rows.drop_nulls(["pid", "tid", "offset_ps", "dur_ps"])
        self.count += rows.height
        self.lost += rows.height - kept.height
        self._parts.append(kept)

    def _bare(self, events: Sequence[Event]) -> pl.DataFrame:
        """The key of the metadata, of events without arguments: Python's, most of those of a host."""
        found = zip([event.pid for event in events], [event.name for event in events], strict=True)
        codes = self._bare_kinds
        return pl.DataFrame({"metadata": [codes[key] for key in found]}, schema={"metadata": pl.Int64})

    def _full(self, events: Sequence[Event]) -> pl.DataFrame:
        """The key of the metadata, and every argument that any of the events has."""
        if not events:
            return pl.DataFrame(schema={"metadata": pl.Int64})
        arguments = zip(*[msgspec.structs.astuple(event.args) for event in events], strict=True)
        columns = dict(zip(ARGUMENTS, arguments, strict=True))
        constants = [columns[name] for name in CONSTANTS]
        found = zip(
            [event.pid for event in events], [event.name for event in events], *constants, strict=True
        )
        present = [name for name, values in columns.items() if values.count(None) < len(events)]
        return pl.DataFrame(
            [
                pl.Series("metadata", _codes(self.kinds, found), dtype=pl.Int64),
                *(integers(name, columns[name]) for name in present if name in INTEGERS),
                *(self._texts(name, columns[name]) for name in present if name in TEXTS),
            ]
        )

    def _texts(self, name: str, values: Sequence[Text]) -> pl.Series:
        return pl.Series(name, _codes(self.texts, values), dtype=pl.Int32)

    def lines(self) -> dict[tuple[int, int], pl.DataFrame]:
        """The rows of each thread, in the order of the file, by (process, thread).

        Columns: metadata, offset_ps, dur_ps, and the stats that any event of the thread has: integers as Int64,
        texts as codes (see `texts`). Raises InputError unsupported_format beyond MAX_THREADS.
        """
        self._flush()
        if not self._parts:
            return {}
        rows, self._parts = pl.concat(self._parts, how="diagonal"), []
        self._check_threads(rows.select(pl.struct("pid", "tid").n_unique()).item())
        threads = rows.partition_by("pid", "tid", maintain_order=True, as_dict=True, include_key=False)
        return {(int(pid), int(tid)): _dense(part) for (pid, tid), part in threads.items()}


def _times(events: Sequence[Event]) -> pl.DataFrame:
    """pid, tid, offset_ps and dur_ps; a duration below 0 is null."""
    frame = pl.DataFrame(
        [
            pl.Series("pid", [event.pid for event in events], dtype=pl.Int64),
            pl.Series("tid", [event.tid for event in events], dtype=pl.Int64),
            picoseconds([event.ts for event in events]).alias("offset_ps"),
            picoseconds([event.dur for event in events]).alias("dur_ps"),
        ]
    )
    dur = pl.col("dur_ps")
    # the exporter writes max(duration, 1 ps), which no clock resolves: 1 stands for 0
    return frame.with_columns(dur_ps=pl.when(dur == 1).then(0).when(dur >= 0).then(dur))


def _codes(codes: dict[Any, int], values: Iterable[Any]) -> list[int]:
    """The codes of `values`; new ones are added to `codes`."""
    return [codes.setdefault(value, len(codes)) for value in values]


def _dense(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` in one piece, without the stats that none of them has."""
    return rows.select([column.name for column in rows if column.null_count() < rows.height]).rechunk()
