"""A large trace decoded by several processes; see `worker`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

import mpg_parsers
from mpg_parsers.kineto.worker import LENGTH
from mpg_parsers.registry import NotParallelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from mpg_parsers.source import Source

AHEAD = 2  # messages of a worker that may wait to be used
MAX_MESSAGE = 1 << 31


class Workers:
    """`count` processes that share the blocks of a trace. Use as a context manager.

    Entering raises NotParallelError where no process can be started.
    """

    def __init__(self, source: Source, count: int, *, keep_names: bool) -> None:
        task = {"source": source.to_json(), "shares": count, "keep_names": keep_names}
        self._tasks = [task | {"share": share} for share in range(count)]
        self._running: list[_Worker] = []
        self._stack = ExitStack()
        self.document: dict[str, Any] = {}

    def __enter__(self) -> Self:
        with ExitStack() as started:
            try:
                for task in self._tasks:
                    self._running.append(_Worker(task))
                    started.callback(self._running[-1].stop)
            except OSError as error:
                raise NotParallelError from error
            self._stack = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[tuple[dict[str, Any], int]]:
        """(packed columns, bytes of the file read), in a fixed order; `document` is set afterwards.

        Raises NotParallelError if the trace is not plain JSON throughout, or a worker died.
        """
        active = list(self._running)
        while active:
            for worker in list(active):
                message = worker.next()
                if "packed" in message:
                    yield message["packed"], message["stored"]
                elif "end" in message:
                    self.document = message["end"] or self.document
                    active.remove(worker)
                else:
                    raise NotParallelError


class _Worker:
    """One process, and a thread that takes its messages so that neither waits for the other."""

    def __init__(self, task: dict[str, Any]) -> None:
        path = os.pathsep.join(
            [str(Path(mpg_parsers.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
        )
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable or "python", "-m", "mpg_parsers.kineto.worker", json.dumps(task)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)},
        )
        self._queue: Queue[dict[str, Any]] = Queue(AHEAD)
        self._stopped = False
        threading.Thread(target=self._receive, daemon=True).start()

    def next(self) -> dict[str, Any]:
        """The next message; one without a known key if the process died."""
        return self._queue.get()

    def _receive(self) -> None:
        while not self._stopped:
            message = _read(self._process.stdout)
            self._queue.put(message)
            if "packed" not in message:
                return

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._stopped = True
        self._process.kill()
        while not self._queue.empty():  # let the thread go on to see the end of the pipe
            self._queue.get_nowait()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


def _read(pipe: IO[bytes] | None) -> dict[str, Any]:
    if pipe is None:
        return {}
    try:
        length = int.from_bytes(_exactly(pipe, LENGTH), "little")
        if length > MAX_MESSAGE:
            return {}
        message = msgspec.msgpack.decode(_exactly(pipe, length))
    except (EOFError, OSError, ValueError, msgspec.DecodeError):
        return {}
    return message if isinstance(message, dict) else {}


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
