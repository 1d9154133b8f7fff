"""argv → exit status: the only place where an error becomes a status.

0 ok; 1 the gate failed; 2 usage or configuration; 3 bad input; 4 cannot decide; 70 a bug in mpg; 130 Ctrl-C;
141 closed pipe.
"""

from __future__ import annotations

import os
import sys
import traceback

from mpg_parsers.errors import MpgError

BUG, INTERRUPTED, CLOSED_PIPE = 70, 130, 141


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    debug = "--debug" in arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an ASCII locale must not turn a name into a crash
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except MpgError as error:
        return _tell(error, debug=debug)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return CLOSED_PIPE
    except Exception as error:  # noqa: BLE001 - the last resort
        return _tell_unexpected(error, debug=debug)
    return status


def run() -> None:
    """The console script."""
    sys.exit(main())


def _run(arguments: list[str]) -> int:
    from mpg_cli.cli import app

    try:
        app(args=arguments, prog_name="mpg", standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    return 0


def _tell(error: MpgError, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"{error.label}: {printable(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {printable(error.hint)}", file=sys.stderr)
    return error.exit_status


def _tell_unexpected(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        print(f"error[io]: {printable(place)}{error.strerror or error}", file=sys.stderr)
        return 3
    print(f"error[bug]: {type(error).__name__}: {printable(str(error))[:500]}", file=sys.stderr)
    print("hint: this is a bug in mpg; run again with --debug and report what it prints", file=sys.stderr)
    return BUG


def printable(text: str) -> str:
    """`text` on one line, control characters shown as escapes: it may come from a file."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _forget_stdout() -> None:
    """Keep the interpreter from flushing into the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    run()
