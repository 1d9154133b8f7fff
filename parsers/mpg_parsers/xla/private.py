"""Directories and host names taken out of the texts of a profile, wherever they may stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from mpg_parsers.kineto.metadata import node
from mpg_parsers.kineto.private import strip_directories

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COLUMNS = ("name", "program", "category")
CLEAN = frozenset({"host_events", "devices", "sources"})  # the names of these are clean, or the device's


def without_directories(batches: Iterable[tuple[str, pl.DataFrame]]) -> Iterator[tuple[str, pl.DataFrame]]:
    """`batches` of tables with names free of directories, which programs and operations have from their functions."""
    for table, frame in batches:
        yield table, frame if table in CLEAN else cleaned(frame)


def cleaned(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with COLUMNS free of directories."""
    for column in COLUMNS:
        if column in frame.columns:
            texts = frame[column].unique().drop_nulls().cast(pl.String)
            clean = {text: strip_directories(text) for text in texts}
            if changed := {text: short for text, short in clean.items() if short != text}:
                frame = frame.with_columns(pl.col(column).cast(pl.String).replace(changed))
    return frame


def said(text: str, hosts: Iterable[str]) -> str:
    """What a profiler says, without directories and with the node's number in place of its name."""
    for host in filter(None, hosts):
        text = text.replace(host, node(host) or "the host")
    return strip_directories(text)
