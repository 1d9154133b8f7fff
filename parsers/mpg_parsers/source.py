"""What a user names on the command line, as sources: files, folders, globs, archives, standard input.

    with expand(["fleet/", "new=trace.json.gz", "ranks.zip", "-"]) as expansion:
        for source in expansion.sources:
            with source.open() as stream: ...

A source is opened as often as one likes, also by another process (`Source.to_json`). Archives and gzip are
recognised by their bytes. Nothing is written but what cannot be read twice or in one piece: standard input,
compressed tars, folders of Parquet files and what nsys-jax writes are copied to a private folder, which
`Expansion.close` removes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from mpg_parsers.containers import (
    BLOCK,
    Listing,
    is_packed,
    is_tar,
    is_zip,
    list_tar,
    list_zip,
    spool,
    tar_opener,
    unpack_tar,
    writing,
)
from mpg_parsers.errors import InputError, Notice
from mpg_parsers.nsight.folder import SUFFIX as PARQUET
from mpg_parsers.nsight.folder import is_export, pack
from mpg_parsers.nsysjax import packing
from mpg_parsers.nsysjax.layout import Profile, profiles
from mpg_parsers.paths import Finder, LeftOut, natural_key, printable, split_label
from mpg_parsers.registry import HEAD, chosen
from mpg_parsers.streams import ByteStream, Extent, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = ["ByteStream", "Expansion", "Source", "expand"]

STDIN = "-"
HASH_BUFFER = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """One stream of bytes: a file, or a member of an archive.

    path    for people: as named, or folder/file, or archive!member; always printable UTF-8
    label   what stood before `=` on the command line, else empty
    named   the user named this very file (it was not found in a folder, by a glob or in an archive)
    file    absolute path of what is on disk: the file, the archive, or the copy of standard input or of a
            compressed tar (which lasts until Expansion.close)
    member  name within the archive
    size    bytes as stored: of the file, or of the member as packed
    extent  where the member's bytes are in `file`
    """

    path: str
    label: str
    named: bool
    file: str
    member: str | None
    size: int
    extent: Extent | None = None

    def open(self) -> ByteStream:
        """The decompressed bytes.

        Raises InputError: not_found, unreadable, unsupported_format (zstd, xz, ...), corrupt_input.
        """
        return ByteStream.unwrapped(self.path, self.file, self.extent)

    def head(self, size: int = 65536) -> bytes:
        """The first decompressed bytes, fewer if the source is shorter or cut. Raises as `open` does."""
        with self.open() as stream:
            return stream.read(size)

    def sha256(self) -> str:
        """Hex digest of the bytes as stored: those of the file (still gzipped), or of the unpacked member."""
        digest = hashlib.sha256()
        buffer = memoryview(bytearray(HASH_BUFFER))
        with ByteStream(self.path, self.file, self.extent) as stream:
            while count := stream.readinto(buffer):
                digest.update(buffer[:count])
        return digest.hexdigest()

    def to_json(self) -> str:
        """Everything needed to open the source in another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        fields = json.loads(text)
        extent = fields.pop("extent")
        return cls(**fields, extent=Extent(**extent) if extent else None)


@dataclass(slots=True)
class Expansion:
    """The sources behind some paths, in natural order per path, and what was left out. Close it after use."""

    sources: list[Source] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    spool: Path | None = None

    def close(self) -> None:
        """Remove the copies of standard input and of compressed tars."""
        if self.spool:
            shutil.rmtree(self.spool, ignore_errors=True)
            self.spool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def expand(
    paths: Sequence[str], *, stdin: BinaryIO | None = None, spool_dir: Path | None = None
) -> Expansion:
    """The sources behind `paths`: files, folders, globs, `label=path` or `-`; archives give their members.

    One file counts once, however often it is named. Files in folders and archives that cannot be used become
    notices. Copies go to a private folder made in `spool_dir` (by default where temporary files go).
    Raises InputError where the user named the file (not_found, unreadable, unsupported_format,
    truncated_input, corrupt_input, empty_input, write_failed), of standard input that no parser takes
    (unsupported_format), or where nothing at all is left.
    """
    expander = _Expander(stdin, spool_dir)
    with ExitStack() as undo:
        undo.callback(expander.expansion.close)
        for text in paths:
            expander.add(text)
        expander.finish()
        undo.pop_all()
    return expander.expansion


@dataclass(frozen=True, slots=True)
class _Found:
    """A file on disk on its way to become a source, or several; `key` tells it from all others."""

    file: Path
    path: str
    label: str
    named: bool
    key: str


class _Expander:
    """The state of one `expand`: what was found so far, and what was left out."""

    def __init__(self, stdin: BinaryIO | None, spool_dir: Path | None) -> None:
        self.expansion = Expansion()
        self._stdin = stdin
        self._spool_dir = spool_dir
        self._left_out = LeftOut()
        self._finder = Finder(self._left_out)
        self._seen: set[str] = set()

    def add(self, text: str) -> None:
        """Add what one argument names."""
        path, label = split_label(text)
        if path == STDIN:
            self._add_stdin(label)
            return
        found = list(self._finder.find(path))
        exports = _exports([file for file, named in found if not named])
        for folder, files in exports.items():
            self._add_export(
                _Found(folder, printable(folder), label, folder == Path(path), str(folder.resolve())), files
            )
        taken, ours = profiles(str(file) for file, named in found if not named)
        self._skip_reports(ours, path)
        for profile in taken:
            self._add_profile(_found_profile(profile, label, Path(path)), profile)
        self._seen.update(str(Path(name).resolve()) for name in ours)  # a glob may come upon them again
        for file, named in found:
            if file.parent not in exports and str(file) not in ours:
                key = str(file.resolve())
                self._add_file(_Found(file.absolute(), printable(file), label, named, key))

    def finish(self) -> None:
        """Complete the expansion, or raise what kept it empty."""
        if not self.expansion.sources:
            nothing = InputError("not_found", "", "no files to read", hint="name a file or a folder")
            raise next(iter(self._left_out.problems), nothing)
        self.expansion.notices.extend(self._left_out.all_notices())

    def _add_stdin(self, label: str) -> None:
        if STDIN in self._seen:
            return
        stream = self._stdin or (sys.stdin.buffer if sys.stdin else None)
        if stream is None or stream.isatty():
            hint = "pipe something into it, e.g. zcat trace.json.gz | mpg analyze -"
            raise InputError("not_found", STDIN, "standard input is a terminal or closed", hint=hint)
        with reading(STDIN):
            head = stream.read(HEAD)
        if len(head) == HEAD and not is_packed(head):
            chosen(head, STDIN)  # what nothing reads is not copied: it may have no end
        target = self._spool_file(STDIN)
        spool(head, stream, target, STDIN)
        self._add_file(_Found(target, STDIN, label, named=True, key=STDIN))

    def _add_export(self, found: _Found, files: Sequence[Path]) -> None:
        """One source for all tables of a folder that Nsight Systems exported."""
        if found.key in self._seen:
            return
        target = self._spool_file(found.path)
        with writing(found.path, target.parent):
            pack(files, target)
        size = target.stat().st_size
        self.expansion.sources.append(Source(found.path, found.label, found.named, str(target), None, size))
        self._seen.add(found.key)

    def _add_profile(self, found: _Found, profile: Profile) -> None:
        """One source for what nsys-jax wrote of one process, unpacked in a folder."""
        if found.key in self._seen:
            return
        try:
            with reading(found.path):
                files = {name: Path(file) for name, file in profile.members.items()}
                members: list[packing.Member] = [
                    (name, file.stat().st_size, partial(FileIO, file)) for name, file in files.items()
                ]
            self._add_pack(found, members)
        except InputError as error:
            if found.named:
                raise
            self._left_out.problem(error)
        else:
            self._seen.add(found.key)

    def _skip_reports(self, names: Collection[str], place: str) -> None:
        for name in sorted(names):
            if Path(name).suffix in (".nsys-rep", ".sqlite"):
                self._left_out.skip("reports of which nsys-jax made the tables beside them", name, place)

    def _add_pack(self, found: _Found, members: Sequence[packing.Member]) -> None:
        target = self._spool_file(found.path)
        with writing(found.path, target.parent):
            packing.pack(members, target, found.path)
        size = target.stat().st_size
        self.expansion.sources.append(Source(found.path, found.label, found.named, str(target), None, size))

    def _add_file(self, found: _Found) -> None:
        if found.key in self._seen:
            return
        try:
            self._add_content(found)
        except InputError as error:
            if found.named:
                raise
            self._left_out.problem(error)
        else:
            self._seen.add(found.key)

    def _add_content(self, found: _Found) -> None:
        file, listing = self._list(str(found.file), found.path)
        if listing is not None:
            self._add_members(found, file, listing)
            return
        size = found.file.stat().st_size
        self.expansion.sources.append(Source(found.path, found.label, found.named, file, None, size))

    def _list(self, file: str, path: str) -> tuple[str, Listing | None]:
        """The file to read members from, and the members; no listing if the file is no archive."""
        with ByteStream(path, file) as stream:
            head = stream.read(BLOCK)
        if is_zip(head):
            return file, list_zip(file, path)
        if is_tar(head):
            return file, list_tar(file, path)
        opener = tar_opener(file, path, head)
        return self._unpack(opener, path) if opener else (file, None)

    def _unpack(self, opener: Callable[[], BinaryIO | ByteStream], path: str) -> tuple[str, Listing]:
        # Reading member by member from the compressed tar would inflate it once for each of them.
        target = self._spool_file(path)
        truncated = unpack_tar(opener, target, path)
        listing = list_tar(str(target), path)
        listing.truncated = listing.truncated or truncated
        return str(target), listing

    def _add_members(self, found: _Found, file: str, listing: Listing) -> None:
        for reason, name in listing.skipped:
            self._left_out.skip(reason, name, found.path)
        if listing.truncated:
            self._left_out.notices.append(Notice("truncated_input", listing.truncated, source=found.path))
        if not listing.members:
            hint = "check what was packed into it"
            raise InputError("empty_input", found.path, "no files to read in this archive", hint=hint)
        taken, ours = profiles(listing.members)
        self._skip_reports(ours, found.path)
        for profile in taken:
            self._add_packed_profile(found, file, listing, profile)
        for name in sorted(listing.members.keys() - ours, key=natural_key):
            path, extent = f"{found.path}!{printable(name)}", listing.members[name]
            source = Source(path, found.label, False, file, name, extent.length, extent)  # noqa: FBT003
            if _is_archive(source):
                self._left_out.skip("archives within an archive", name, found.path)
            else:
                self.expansion.sources.append(source)

    def _add_packed_profile(self, found: _Found, file: str, listing: Listing, profile: Profile) -> None:
        """One source for what nsys-jax wrote of one process, in an archive."""
        inside = printable(f"{profile.root}{profile.process}".rstrip("/"))
        path = f"{found.path}!{inside}" if inside else found.path
        members: list[packing.Member] = []
        for name, stored in profile.members.items():
            extent = listing.members[stored]
            size = extent.length if extent.crc is None else extent.size
            members.append(
                (name, size, partial(ByteStream, f"{found.path}!{printable(stored)}", file, extent))
            )
        self._add_pack(replace(found, path=path, named=found.named and not inside), members)

    def _spool_file(self, path: str) -> Path:
        """A new, empty file in the spool folder, which only this user can read."""
        with writing(path, self._spool_dir or Path(tempfile.gettempdir())):
            if self.expansion.spool is None:
                if self._spool_dir:
                    self._spool_dir.mkdir(parents=True, exist_ok=True)
                self.expansion.spool = Path(tempfile.mkdtemp(prefix="mpg-", dir=self._spool_dir)).absolute()
            descriptor, name = tempfile.mkstemp(dir=self.expansion.spool)
            os.close(descriptor)
        return Path(name)


def _exports(files: Sequence[Path]) -> dict[Path, list[Path]]:
    """The folders among those of `files` that are exports of Nsight Systems as Parquet, with their files."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        if file.suffix == PARQUET:
            folders.setdefault(file.parent, []).append(file)
    return {folder: tables for folder, tables in folders.items() if is_export(tables)}


def _found_profile(profile: Profile, label: str, named: Path) -> _Found:
    folder = Path(profile.root or ".")
    path = printable(folder) + (f"!{printable(profile.process)}" if profile.process else "")
    return _Found(folder, path, label, folder == named, f"{folder.resolve()}!{profile.process}")


def _is_archive(source: Source) -> bool:
    try:
        head = source.head(BLOCK)
    except InputError:
        return False  # whoever opens the member is told what is wrong with it
    return is_zip(head) or is_tar(head)
