"""One chip as software sees it: dense peaks by operand type, memory bandwidth, and exact times from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mpg_cli.hardware.dtypes import dtype_name

if TYPE_CHECKING:
    from decimal import Decimal

Unit = Literal["matrix", "vector"]

_PER_SECOND = 10**9  # nanoseconds

# a block-scaled type runs at the rate of its elements where the vendor gives no rate of its own
_ELEMENT = {"mxfp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4"}

# which units a matrix multiplication of these types may run on, fastest first; all others: the matrix unit
_MATMUL: dict[str, tuple[tuple[str, Unit], ...]] = {
    "fp32": (("tf32", "matrix"), ("fp32", "matrix"), ("fp32", "vector")),
    "fp64": (("fp64", "matrix"), ("fp64", "vector")),
}


@dataclass(frozen=True, slots=True)
class Peak:
    """A rate in TFLOP/s (10^12 operations per second; TOP/s for integers) and where the figure comes from."""

    dtype: str
    unit: Unit
    tflops: Decimal
    source: str

    @property
    def flops_per_second(self) -> int:
        """The rate in FLOP/s, exactly; 1 TFLOP/s is 10^12 FLOP/s or 1000 FLOP/ns."""
        return int(self.tflops * 10**12)

    def ideal_ns(self, flops: int) -> int:
        """Nanoseconds for `flops` at this rate, rounded down: rounding lifts no kernel above its peak."""
        return flops * _PER_SECOND // self.flops_per_second


@dataclass(frozen=True, slots=True)
class Chip:
    """One entry of the catalogue (fields: see catalogue.toml); figures without a source are None or missing.

    `peaks` are dense and unique by (dtype, unit); `measured` are sustained rates, several per type possible.
    """

    name: str
    vendor: str
    device: str
    devices_per_package: int
    aliases: tuple[str, ...]
    compute_capability: str | None
    units: int | None
    memory_gb: Decimal | None
    bandwidth_gbps: Decimal | None
    peaks: tuple[Peak, ...]
    measured: tuple[Peak, ...]
    interconnect: str
    note: str
    memory_source: str
    bandwidth_source: str

    def peak(self, dtype: str, unit: Unit = "matrix") -> Peak | None:
        """The dense peak of a unit for an operand type (by any of its names); None if no figure is sourced.

        NVIDIA's matrix unit has no true fp32: see `matmul_peaks`.
        """
        rates = {rate.dtype: rate for rate in self.peaks if rate.unit == unit}
        name = dtype_name(dtype) or ""
        return rates.get(name) or rates.get(_ELEMENT.get(name, ""))

    def matmul_peaks(self, dtype: str) -> tuple[Peak, ...]:
        """The peaks to hold a matrix multiplication of this type against, fastest first; () if none is known.

        Several for fp32 (TF32 if the program allows it, true fp32, the vector unit) and fp64: the caller
        decides.
        """
        name = dtype_name(dtype) or ""
        ways = _MATMUL.get(name, ((name, "matrix"),))
        return tuple(rate for way in ways if (rate := self.peak(*way)) is not None)

    def achievable(self, dtype: str) -> Peak | None:
        """The largest rate known to be sustained in matrix multiplications of this type, or None."""
        rates = [rate for rate in self.measured if rate.dtype == dtype_name(dtype)]
        return max(rates, key=lambda rate: rate.tflops, default=None)

    @property
    def bytes_per_second(self) -> int | None:
        """The memory bandwidth in bytes/s, exactly; 1 GB/s is 10^9 bytes/s or 1 byte/ns."""
        return None if self.bandwidth_gbps is None else int(self.bandwidth_gbps * 10**9)

    def transfer_ns(self, size: int) -> int | None:
        """Nanoseconds for `size` bytes at the memory bandwidth, rounded down; None if that is not known."""
        rate = self.bytes_per_second
        return None if rate is None else size * _PER_SECOND // rate

    @property
    def sources(self) -> dict[str, str]:
        """The source of every figure: memory_gb, bandwidth_gbps, matrix.bf16, vector.fp32, achievable.bf16 …

        Where two measurements exist for a type, both sources are given.
        """
        found = {f"{rate.unit}.{rate.dtype}": rate.source for rate in self.peaks}
        for rate in self.measured:
            key = f"achievable.{rate.dtype}"
            found[key] = f"{found[key]}; {rate.source}" if key in found else rate.source
        if self.memory_gb is not None:
            found["memory_gb"] = self.memory_source
        if self.bandwidth_gbps is not None:
            found["bandwidth_gbps"] = self.bandwidth_source
        return found
