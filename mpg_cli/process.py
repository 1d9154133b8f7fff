"""What the process is given by whoever starts it: its three standard streams, and signals that end it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
ENDING = (signal.SIGTERM, signal.SIGHUP)


def open_standard_streams() -> None:
    """Put the null device in the place of standard streams that are closed.

    Otherwise the next file that is opened gets the number of one of them, and what is printed goes into it.
    """
    for number, (name, mode) in enumerate(STREAMS):
        try:
            os.fstat(number)
        except OSError:
            _open_null(number)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _open_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, True)  # noqa: FBT003


@dataclass(slots=True)
class Ending:
    """`status` is the exit status that a signal asked for, None so far."""

    status: int | None = None

    def end(self, number: int, _: FrameType | None) -> None:
        """Handle SIGTERM or SIGHUP; what asks again while cleaning up is not heard."""
        self.status = 128 + number
        for other in ENDING:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(self.status)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT as Python does, and remember it."""
        self.status = 128 + number
        signal.default_int_handler(number, frame)


@contextmanager
def ending_in_order() -> Iterator[Ending]:
    """Within the context SIGTERM and SIGHUP raise SystemExit(128 + number), so that temporary files are removed.

    A signal that is ignored stays so (nohup). What a handler raises can be lost, or come out as another error, where it
    strikes inside an extension module: hence the status, and no message about the loss.
    """
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    handlers = {signal.SIGINT: ending.interrupt, signal.SIGTERM: ending.end, signal.SIGHUP: ending.end}
    before = {number: signal.getsignal(number) for number in handlers}
    hook = sys.unraisablehook
    sys.unraisablehook = lambda lost: None if ending.status is not None else hook(lost)
    try:
        for number, handler in handlers.items():
            if before[number] in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, handler)
        yield ending
    finally:
        sys.unraisablehook = hook
        for number, former in before.items():
            signal.signal(number, former)


def release_memory() -> None:
    """Give what the C library's allocator holds in reserve back to the system, where that is glibc."""
    import ctypes  # needed nowhere else

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
