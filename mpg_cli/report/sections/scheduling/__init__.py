"""What the records of schedulers tell of a fleet, in reading order."""

from __future__ import annotations

from mpg_cli.report.sections.scheduling import (
    closing,
    endings,
    fragmentation,
    integrity,
    jobs,
    known,
    parts,
    preemptions,
    reconciled,
    reliability,
    waits,
)

__all__ = ["PARTS"]

PARTS = (
    integrity.section,
    known.section,
    waits.section,
    endings.section,
    preemptions.section,
    reliability.section,
    fragmentation.section,
    parts.section,
    reconciled.section,
    closing.remarks,
    jobs.section,
    closing.next_time,
)
