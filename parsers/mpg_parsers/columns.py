"""What a canonical table is made of: columns with a type, a meaning, a unit and what a null says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `dtype` is int64, int32, float64, string or bool; `null` says what a null means."""

    name: str
    dtype: str
    meaning: str
    unit: str = ""
    null: str = "never"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """One table: `row` says what a row is."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def schema(self) -> pl.Schema:
        """The table's schema in Polars types."""
        import polars as pl

        types = {
            "int64": pl.Int64(),
            "int32": pl.Int32(),
            "float64": pl.Float64(),
            "string": pl.String(),
            "bool": pl.Boolean(),
        }
        return pl.Schema({column.name: types[column.dtype] for column in self.columns})

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`frame` with exactly this table's columns, in order and type; absent ones are null."""
        import polars as pl

        if not frame.columns:
            return pl.DataFrame(schema=self.schema())
        return frame.select(
            (pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name))
            for name, dtype in self.schema().items()
        )
