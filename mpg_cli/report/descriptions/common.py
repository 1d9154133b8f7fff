"""Sentences that several objects share."""

from __future__ import annotations

SOURCE = "The path of the file it comes from, as in `sources`."
RANK = "The rank, or null where the file names none."
DEVICE = "The device's number, as the file calls it."
SHARE_OF_COMPUTING = "of the summed duration of the computing kernels in the windows, from 0 to 1."
SHARE_OF_TIME = "of the summed duration of all device activity in the windows, from 0 to 1."
SHARE_OF_CAPACITY = "chip_ns over the capacity, from 0 to 1."
START = "Its start on the clock of the source, in nanoseconds: 1,000 times the `ts` of the trace"
