"""What the process is given by whoever starts it: its three standard streams, and signals that end it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
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


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within the context SIGTERM and SIGHUP raise SystemExit(128 + number), so that temporary files are removed.

    A signal that is ignored stays so (nohup), and what asks again while cleaning up is not heard.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number, handler in before.items():
            if handler is signal.SIG_DFL:
                signal.signal(number, _end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)
