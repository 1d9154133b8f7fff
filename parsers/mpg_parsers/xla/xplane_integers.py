"""Events whose fields and stats are all integers, decoded in bulk.

On the wire such events are varints and nothing else: a tag and a value in turn, where the value of an event or of a
stat is its length. Polars has one decoder of varints, that of Avro, and it takes the bytes as they are once an Avro
header stands before them. What a tag belongs to is told by what follows it, and proved by the lengths.
"""

from __future__ import annotations

import io

import polars as pl
from polars import col

from mpg_parsers.xla.xplane_columns import AmbiguousError
from mpg_parsers.xla.xplane_stats import Stats

# tags as Avro reads them, whose integers are zigzag: an even number is its half, an odd one negative
_ID, _OFFSET, _DURATION = 1 << 2, 2 << 2, 3 << 2
_NESTED = 4 << 2 | 1  # an event of a line, or a stat of an event
_KINDS = {3 << 2: "uint64_value", 4 << 2: "int64_value", 7 << 2: "ref_value"}
_SCHEMA = (
    b'{"type":"record","name":"field","fields":[{"name":"tag","type":"long"},{"name":"value","type":"long"}]}'
)
_SYNC = bytes(16)
_CONTINUED = bytes(range(0x80, 0x100))


def _long(value: int) -> bytes:
    """A number that is not negative, as Avro writes it."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _text(value: bytes) -> bytes:
    return _long(len(value)) + value


_HEADER = b"".join(
    [b"Obj\x01", _long(2), *map(_text, (b"avro.schema", _SCHEMA, b"avro.codec", b"null")), b"\0", _SYNC]
)


def events(part: bytes) -> tuple[pl.DataFrame, Stats]:
    """metadata, offset_ps and dur_ps of the events in `part`, which holds nothing else, and their stats.

    Raises AmbiguousError where not all that they hold are integers, or not in the order in which they are written.
    """
    heads = _heads(_fields(part))
    own, stats = heads.filter("event"), heads.filter(~col.event)
    timed = (col.fields == 3) | ((col.fields == 4) & (col.tag_3 == _DURATION))
    proofs = (
        heads["event"].head(1),
        heads["tag_1"] == _ID,
        own["content"] + own["value"] == own["start"].shift(-1, fill_value=len(part)),
        own.select(timed).to_series(),
        stats["content"] + stats["value"] == stats["until"],
        stats["fields"] == 3,
    )
    if not all(proof.all() for proof in proofs):
        raise AmbiguousError("order")
    dur = pl.when(col.fields == 4).then(col.value_3.clip(0)).otherwise(0)
    return own.select(metadata="value_1", offset_ps="value_2", dur_ps=dur), _stats(stats)


def _fields(part: bytes) -> pl.DataFrame:
    """tag and value (zigzag) of the fields of `part`, and `content`, where each ends or its content begins.

    Raises AmbiguousError if not all are varints.
    """
    count, odd = divmod(len(part.translate(None, _CONTINUED)), 2)
    block = b"".join([_HEADER, _long(count), _long(len(part)), part, _SYNC])
    try:
        found = pl.read_avro(io.BytesIO(block))
    except pl.exceptions.PolarsError as error:
        raise AmbiguousError("varints") from error
    # one bit less than the integer has; 7 bits a byte, and a byte of the tag
    halved = col.value ^ pl.when(col.value < 0).then(-1).otherwise(0)
    size = (78 - halved.bitwise_leading_zeros()) // 7
    known = found.with_columns(content=size.cum_sum())
    # a varint may be longer than it must; of one of 10 bytes Avro and protobuf have different opinions
    if odd or not count or known["content"][-1] != len(part):
        raise AmbiguousError("varints")
    return known


def _heads(fields: pl.DataFrame) -> pl.DataFrame:
    """The fields that hold others: where they start, where their content does, and value, its length.

    tag_n, value_n: of the n-th field that follows; fields: how many they are with what follows before the next, which
    starts at `until`; event: whether it is one, of which a stat has the number
    Raises AmbiguousError if a field stands before the first of them.
    """
    at = (fields["tag"] == _NESTED).arg_true().cast(pl.Int64)
    if at.is_empty() or at[0] != 0:
        raise AmbiguousError("start")
    following = {n: (at + n).clip(upper_bound=fields.height - 1) for n in (1, 2, 3)}
    heads = fields.select(
        col.content.shift(1, fill_value=0).gather(at).cast(pl.Int64).alias("start"),
        col.content.gather(at),
        _plain(col.value.gather(at)),
        **{f"tag_{n}": col.tag.gather(rows) for n, rows in following.items()},
        **{f"value_{n}": _plain(col.value.gather(rows)) for n, rows in following.items()},
        fields=at.shift(-1, fill_value=fields.height) - at,
    )
    event = col.tag_2 == _OFFSET
    until = col.start.shift(-1, fill_value=fields["content"].last())
    return heads.with_columns(event=event, number=event.cum_sum().cast(pl.Int64) - 1, until=until)


def _plain(zigzag: pl.Expr) -> pl.Expr:
    """The integer of 64 bits that Avro has read as `zigzag`."""
    return (zigzag * 2) ^ pl.when(zigzag < 0).then(-1).otherwise(0)


def _stats(stats: pl.DataFrame) -> Stats:
    """Raises AmbiguousError."""
    tags, values = stats["tag_2"], stats["value_2"]
    present = tags.unique().sort().to_list()
    if not set(present) <= _KINDS.keys():
        raise AmbiguousError("stats")
    none = pl.Series([None], dtype=pl.Int64)
    typed = {_KINDS[tag]: values.zip_with(tags == tag, none) if present[1:] else values for tag in present}
    return Stats(stats["number"], stats["value_1"], typed)
