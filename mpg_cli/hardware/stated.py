"""Ceilings that a file states of its device: memory bandwidth, and the FP32 rate that its SMs and clock make.

The rates of the matrix unit cannot be told from them: those only come from the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from mpg_cli.hardware.chip import Chip, Peak

SOURCE = "the trace"  # what the sources of such figures begin with
MARK = "(from the trace)"  # in the name of a chip that the catalogue lacks
LONGEST_NAME = 80

# FP32 lanes of an SM by compute capability, each a multiply-add per cycle. NVIDIA/cuda-samples@1c2efac
# Common/helper_cuda.h _ConvertSMVer2Cores up to 9.0; 10.0 and 12.0 are what the catalogue's peaks of B200 and RTX 5090
# come to with their SMs and clocks.
LANES = {
    "5.0": 128, "5.2": 128, "5.3": 128, "6.0": 64, "6.1": 128, "6.2": 128, "7.0": 64, "7.2": 64, "7.5": 64,
    "8.0": 64, "8.6": 128, "8.7": 128, "8.9": 128, "9.0": 128, "10.0": 128, "12.0": 128,
}  # fmt: skip
# figures outside of these are damaged: the smallest and the largest there are differ from them by a decade and more
CLOCKS = (10**8, 10**10)  # Hz
BANDWIDTHS = (10**9, 10**15)  # byte/s
RATES = (10**12, 10**17)  # FLOP/s
MOST_UNITS = 10_000
TPU_VENDOR = "Google"  # whose devices state their peak


@dataclass(frozen=True, slots=True)
class Stated:
    """What a file says of a device; None where it does not: clock_hz is the highest, bandwidth in byte/s."""

    name: str | None = None
    compute_capability: str | None = None
    units: int | None = None
    clock_hz: int | None = None
    bandwidth: int | None = None
    peak_flops: int | None = None

    def complete(self, chip: Chip | None) -> Chip | None:
        """`chip` of the catalogue with the bandwidth and the fp32 rate that it lacks.

        Without one, a chip that has nothing else; None where not even its fp32 rate can be told. A device that states
        the peak of its matrix unit, as TPUs do, is believed before the catalogue.
        """
        fp32, bandwidth = self._fp32(), self._bandwidth()
        if peak := self._peak():
            return self._measured_by_itself(chip, peak, bandwidth)
        if chip is None:
            return None if fp32 is None else self._chip((fp32,), bandwidth)
        if chip.bandwidth_gbps is None and bandwidth is not None:
            chip = replace(chip, bandwidth_gbps=bandwidth, bandwidth_source=self._bandwidth_source())
        if fp32 is not None and chip.peak("fp32") is None and chip.peak("fp32", "vector") is None:
            chip = replace(chip, peaks=(*chip.peaks, fp32))
        return chip

    def _peak(self) -> Peak | None:
        """The rate of the matrix unit, which is that of bfloat16 on a TPU."""
        if self.peak_flops is None or not RATES[0] <= self.peak_flops <= RATES[1]:
            return None
        rate = Decimal(self.peak_flops).scaleb(-12)
        return Peak("bf16", "matrix", rate, f"{SOURCE}: {rate.normalize():f} TFLOP/s")

    def _measured_by_itself(self, chip: Chip | None, peak: Peak, bandwidth: Decimal | None) -> Chip:
        if chip is None:
            return replace(self._chip((peak,), bandwidth), vendor=TPU_VENDOR)
        others = tuple(rate for rate in chip.peaks if (rate.dtype, rate.unit) != (peak.dtype, peak.unit))
        chip = replace(chip, peaks=(peak, *others))
        if bandwidth is None:
            return chip
        return replace(chip, bandwidth_gbps=bandwidth, bandwidth_source=self._bandwidth_source())

    def _fp32(self) -> Peak | None:
        """2 · SMs · lanes of an SM · clock, in FLOP/s: every lane does a multiply-add per cycle."""
        lanes = LANES.get(self.compute_capability or "")
        if lanes is None or self.units is None or self.clock_hz is None:
            return None
        if not (0 < self.units <= MOST_UNITS and CLOCKS[0] <= self.clock_hz <= CLOCKS[1]):
            return None
        rate = Decimal(2 * self.units * lanes * self.clock_hz).scaleb(-12)
        clock = f"{self.clock_hz / 1e9:.3f} GHz"
        return Peak("fp32", "vector", rate, f"{SOURCE}: 2 FLOP × {self.units} SMs × {lanes} lanes × {clock}")

    def _bandwidth(self) -> Decimal | None:
        if self.bandwidth is None or not BANDWIDTHS[0] <= self.bandwidth <= BANDWIDTHS[1]:
            return None
        return Decimal(self.bandwidth).scaleb(-9)

    def _bandwidth_source(self) -> str:
        return f"{SOURCE}: {self.bandwidth} byte/s"

    def _chip(self, peaks: tuple[Peak, ...], bandwidth: Decimal | None) -> Chip:
        return Chip(
            name=f"{(self.name or 'device')[:LONGEST_NAME]} {MARK}",
            vendor="",
            device="",
            devices_per_package=1,
            aliases=(),
            compute_capability=self.compute_capability,
            units=self.units,
            memory_gb=None,
            bandwidth_gbps=bandwidth,
            peaks=peaks,
            measured=(),
            interconnect="",
            note="",
            memory_source="",
            bandwidth_source="" if bandwidth is None else self._bandwidth_source(),
        )
