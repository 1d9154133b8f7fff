"""Reports that only NVIDIA's own nsys can read: which nsys that takes, and running it where there is one."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mpg_parsers.containers import spool, writing
from mpg_parsers.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpg_parsers.source import Source

HEADER = 64
SIGNS = (b"NVIDIA Tegra Profiler Report", b"NSYSREP")
# "…Report 2024@6@2@225-…" since 2024, "…Report 1." before
STATED = re.compile(rb"Report (\d{4})@(\d{1,2})@(\d{1,2})")
REPORTED = re.compile(r"(\d{4})\.(\d{1,2})\.(\d{1,2})")
NAMED = (".nsys-rep", ".qdrep", ".sqlite")
TIMEOUT = 3600  # seconds an export may take
Version = tuple[int, int, int]


def is_report(head: bytes) -> bool:
    """Whether `head` begins a .nsys-rep or .qdrep."""
    return any(sign in head[:HEADER] for sign in SIGNS)


def stated_version(head: bytes) -> Version | None:
    """The version of the nsys that wrote a report; None if the header does not say (before 2024)."""
    found = STATED.search(head[: 2 * HEADER])
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


@contextlib.contextmanager
def exported(source: Source, nsys: str) -> Iterator[Path]:
    """A temporary SQLite export of a report, made by `nsys` (a name or path; empty: the nsys on the PATH).

    Raises InputError needs_export if there is no nsys, it is older than the report, or it fails.
    """
    needed = stated_version(source.head(2 * HEADER))
    tool = shutil.which(nsys or "nsys")
    if not tool:
        raise _needs(
            source, needed, f"there is no program {nsys}" if nsys else "there is no nsys on the PATH"
        )
    have = _version(tool)
    if have is None or (needed and have < needed):
        found = _shown(have) if have else "of unknown version"
        raise _needs(source, needed, f"{tool} is {found}, which cannot read it")
    with tempfile.TemporaryDirectory(prefix="mpg-") as name:
        folder = Path(name)
        target = folder / "export.sqlite"
        _run(
            source, needed, [tool, "export", "--type", "sqlite", "--force-overwrite", "true"], folder, target
        )
        yield target


def _run(source: Source, needed: Version | None, command: list[str], folder: Path, target: Path) -> None:
    report = folder / "report.nsys-rep"
    with source.open() as stream, writing(source.path, folder):
        spool(stream.read(1 << 20), stream, report, source.path)  # type: ignore[arg-type]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own nsys
            [*command, "--output", str(target), str(report)],
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _needs(source, needed, f"nsys export did not run ({error})") from error
    if done.returncode or not target.exists():
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        raise _needs(source, needed, f"nsys export failed with status {done.returncode} ({said})")


def _version(tool: str) -> Version | None:
    try:
        done = subprocess.run([tool, "--version"], capture_output=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = REPORTED.search(done.stdout.decode("utf-8", "replace"))
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _shown(version: Version) -> str:
    return ".".join(map(str, version))


def _needs(source: Source, needed: Version | None, why: str) -> InputError:
    version = f"Nsight Systems {_shown(needed)} or newer" if needed else "a current Nsight Systems"
    message = f"an Nsight Systems report in NVIDIA's own format (not SQLite), and {why}"
    return InputError("needs_export", source.path, message, hint=f"with {version}: {command(source.path)}")


def command(path: str) -> str:
    """What makes an export of a report that mpg can read."""
    return f"nsys export --type sqlite --output report.sqlite {shlex.quote(path)}"


def not_a_database(source: Source) -> InputError:
    """What to say of a file that by its name should be a report or an export, and by its bytes is neither."""
    message = "neither a SQLite database nor a report that Nsight Systems wrote"
    hint = f"if it is a renamed .nsys-rep: {command(source.path)}; else copy or export it again"
    return InputError("needs_export", source.path, message, hint=hint)


def other_export(source: Source, kind: str) -> InputError:
    """What to say of an export in a format that mpg does not read."""
    message = f"a file as `nsys export --type {kind}` writes, which is not read"
    hint = "export as SQLite instead: nsys export --type sqlite REPORT.nsys-rep"
    return InputError("unsupported_format", source.path, message, hint=hint)
