"""Protobuf message classes made at run time from the few fields that are read, and those of an XPlane file.

Classes that protoc generates refuse runtimes older than itself; descriptors do not. Texts are declared as bytes: they
look the same in a file, and a name that is no UTF-8 must not make a whole profile unreadable.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import api_implementation

from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Proto = descriptor_pb2.FieldDescriptorProto


class Field(NamedTuple):
    """One field of a message.

    type: a scalar type of protobuf ("int64", "uint64", "double", "bytes", "bool", ...) or the name of a message
    oneof: fields of a message with the same one exclude each other: the last in the file counts
    """

    name: str
    number: int
    type: str
    repeated: bool = False
    oneof: str = ""


def classes(package: str, messages: Mapping[str, Sequence[Field]]) -> dict[str, Any]:
    """Message classes by name, in a descriptor pool of their own. All fields have presence (`HasField`).

    A field of the file that is not listed is skipped by parsing. Repeated numbers are read packed or not.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for name, fields in messages.items():
        _declare(file.message_type.add(name=name), fields, package)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _declare(message: descriptor_pb2.DescriptorProto, fields: Sequence[Field], package: str) -> None:
    for oneof in dict.fromkeys(field.oneof for field in fields if field.oneof):
        message.oneof_decl.add(name=oneof)
    oneofs = [oneof.name for oneof in message.oneof_decl]
    for field in fields:
        label = _Proto.LABEL_REPEATED if field.repeated else _Proto.LABEL_OPTIONAL
        declared = message.field.add(name=field.name, number=field.number, label=label)
        scalar = f"TYPE_{field.type.upper()}"
        if scalar in _Proto.Type.keys():  # noqa: SIM118 (an enum wrapper, no dict)
            declared.type = _Proto.Type.Value(scalar)
        else:
            declared.type = _Proto.TYPE_MESSAGE
            declared.type_name = f".{package}.{field.type}"
        if field.oneof:
            declared.oneof_index = oneofs.index(field.oneof)


def require_upb(path: str) -> None:
    """Raises InputError(unsupported_format) unless protobuf decodes in C: in Python a profile takes minutes."""
    backend = api_implementation.Type()
    if backend == "upb":
        return
    message = (
        f"not read: protobuf runs on its {backend!r} backend here, which takes minutes and gigabytes for this"
    )
    hint = (
        "unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION, or install a protobuf built with upb: "
        "pip install --force-reinstall --only-binary :all: protobuf"
    )
    raise InputError("unsupported_format", path, message, hint=hint)


_STAT = (
    Field("metadata_id", 1, "int64"),
    Field("double_value", 2, "double", oneof="value"),
    Field("uint64_value", 3, "uint64", oneof="value"),
    Field("int64_value", 4, "int64", oneof="value"),
    Field("str_value", 5, "bytes", oneof="value"),
    Field("bytes_value", 6, "bytes", oneof="value"),
    Field("ref_value", 7, "uint64", oneof="value"),
)
# tsl/profiler/protobuf/xplane.proto. Maps are what they are on the wire: repeated entries, of which the last counts.
XSPACE: dict[str, tuple[Field, ...]] = {
    "XStat": _STAT,
    "XEvent": (
        Field("metadata_id", 1, "int64"),
        Field("offset_ps", 2, "int64", oneof="data"),
        Field("num_occurrences", 5, "int64", oneof="data"),
        Field("duration_ps", 3, "int64"),
        Field("stats", 4, "XStat", repeated=True),
    ),
    "XLine": (
        Field("id", 1, "int64"),
        Field("name", 2, "bytes"),
        Field("timestamp_ns", 3, "int64"),
        Field("events", 4, "bytes", repeated=True),  # one message each, left as it is
        Field("display_name", 11, "bytes"),
    ),
    "XEventMetadata": (
        Field("id", 1, "int64"),
        Field("name", 2, "bytes"),
        Field("display_name", 4, "bytes"),
        Field("stats", 5, "XStat", repeated=True),
    ),
    "XStatMetadata": (Field("id", 1, "int64"), Field("name", 2, "bytes")),
    "EventEntry": (Field("key", 1, "int64"), Field("value", 2, "XEventMetadata")),
    "StatEntry": (Field("key", 1, "int64"), Field("value", 2, "XStatMetadata")),
    # without its lines, which stay where they are in the file
    "XPlane": (
        Field("id", 1, "int64"),
        Field("name", 2, "bytes"),
        Field("event_metadata", 4, "EventEntry", repeated=True),
        Field("stat_metadata", 5, "StatEntry", repeated=True),
        Field("stats", 6, "XStat", repeated=True),
    ),
}


@cache
def xspace() -> dict[str, Any]:
    """The classes of XSPACE by name."""
    return classes("mpg.xplane", XSPACE)
