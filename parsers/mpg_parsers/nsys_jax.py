"""Archives of NVIDIA's nsys-jax: XLA operations as Nsight Systems projects them on the GPU, and XLA's programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from mpg_parsers.registry import ParseOptions
    from mpg_parsers.source import Source


@dataclass(frozen=True)
class NsysJaxParser:
    """Reads what nsys-jax and nsys-jax-combine write, as a zip or unpacked; one source per process."""

    name: str = "nsys-jax"
    description: str = "nsys-jax archive (NVIDIA JAX-Toolbox), zip or unpacked"
    tables: tuple[str, ...] = (
        "sources", "devices", "device_ops", "host_events", "steps", "hlo_ops", "programs", "program_runs",
    )  # fmt: skip

    def sniff(self, head: bytes, path: str) -> str:  # noqa: ARG002 - the name decides nothing
        """What `source.expand` packs of a profile; the archive itself is never asked about."""
        from mpg_parsers.nsysjax.packing import is_packed

        return "" if is_packed(head) else "it is no archive of nsys-jax"

    def parse(self, source: Source, options: ParseOptions) -> Iterator[tuple[str, pl.DataFrame]]:
        """Batches of all tables. Held in memory: one member at a time (at most 1 GiB) and the rows.

        Raises InputError: corrupt_input, truncated_input, unsupported_format, no_device_activity.
        """
        from mpg_parsers.nsysjax.packing import Pack
        from mpg_parsers.nsysjax.report import Report
        from mpg_parsers.xla.private import without_directories

        read = Report(Pack(source), options).batches()
        yield from read if options.keep_names else without_directories(read)
        if options.progress:
            options.progress(source.size)


NSYS_JAX = NsysJaxParser()
