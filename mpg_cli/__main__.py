"""argv → exit status: the only place where an error becomes a status.

0 ok; 1 the gate failed; 2 usage or configuration; 3 bad input; 4 cannot decide; 70 a bug in mpg; 130 Ctrl-C;
141 closed pipe.
"""

from __future__ import annotations

import os
import sys
import traceback

from mpg_cli.messages import say, say_as_is
from mpg_cli.process import Ending, ending_in_order, open_standard_streams
from mpg_parsers.errors import MpgError

BAD_INPUT, BUG, INTERRUPTED, CLOSED_PIPE = 3, 70, 130, 141


# Polars' allocator keeps freed pages for ten seconds by default, longer than a run: a quarter of its peak memory.
os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:2,dirty_decay_ms:300,muzzy_decay_ms:0")


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an ASCII locale must not turn a name into a crash
    try:
        with ending_in_order() as ending:
            status = _run_and_tell(arguments, ending, debug="--debug" in arguments)
            return status if ending.status is None else ending.status
    except BrokenPipeError:  # on standard output, or on standard error while telling of an error
        return CLOSED_PIPE


def run() -> None:
    """The console script."""
    status = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (
            OSError
        ):  # closed or full: keep the interpreter from trying again and from setting its own status
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)


def _run_and_tell(arguments: list[str], ending: Ending, *, debug: bool) -> int:
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except BaseException as error:  # noqa: BLE001 - the last resort; a panic of Polars is no Exception
        stopped = _stopped(error) if ending.status is None else ending.status
        if stopped is not None:
            return stopped
        if debug:
            say_as_is("".join(traceback.format_exception(error)).rstrip())
        return _tell(error)
    return status


def _stopped(error: BaseException) -> int | None:
    """The status if a signal is behind the error, which may surface from Polars as another one; else None."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(link, SystemExit):
            return link.code if isinstance(link.code, int) else BUG
        link = link.__cause__ or link.__context__
    return None


def _run(arguments: list[str]) -> int:
    from mpg_cli.cli import app

    streams = sys.stdout, sys.stderr
    try:
        app(args=arguments, prog_name="mpg", standalone_mode=True)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Typer's status for it is 1: "the gate failed"
            sys.stdout, sys.stderr = streams  # which Typer has replaced
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    return 0


def _tell(error: BaseException) -> int:
    """Say what went wrong and what to do next; the status."""
    if isinstance(error, MpgError):
        label, message, hint, status = error.label, error.message, error.hint, error.exit_status
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        label, message, hint, status = "error[io]", f"{place}{error.strerror or error}", "", BAD_INPUT
    else:
        label, message, status = "error[bug]", f"{type(error).__name__}: {error}"[:500], BUG
        hint = "this is a bug in mpg; run again with --debug and report what it prints"
    say(f"{label}: {message}")
    if hint:
        say(f"hint: {hint}")
    return status


if __name__ == "__main__":
    run()
