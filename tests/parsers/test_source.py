"""What the command line names, as sources: files, folders, globs, labels, standard input."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mpg_parsers import paths
from mpg_parsers.containers import spool
from mpg_parsers.errors import InputError
from mpg_parsers.source import Expansion, Source, expand
from tests.parsers.archives import gz, put, tar_of, zip_of

A, B = b'{"rank": 0}', b'{"rank": 1}'
CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus" / "hard_inputs"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def names(expansion: Expansion) -> list[str]:
    return [source.path for source in expansion.sources]


FILES = {
    "run/rank10.json": B,
    "run/rank2.json": A,
    "run/sub/x.json": A,
    "lr=0.1/t.json": A,
    "a[1].json": B,
    "z": A,
}
PATHS = {
    "file": (["z"], ["z"]),
    "in the order given": (["z", "run/rank2.json"], ["z", "run/rank2.json"]),
    "folder": (["run"], ["run/rank2.json", "run/rank10.json", "run/sub/x.json"]),
    "folder with a slash": (["run/"], ["run/rank2.json", "run/rank10.json", "run/sub/x.json"]),
    "glob": (["run/*.json"], ["run/rank2.json", "run/rank10.json"]),
    "glob of folders": (["r*"], ["run/rank2.json", "run/rank10.json", "run/sub/x.json"]),
    "deep glob": (
        ["**/*.json"],
        ["a[1].json", *["lr=0.1/t.json", "run/rank2.json", "run/rank10.json", "run/sub/x.json"]],
    ),
    "everything below": (["run/**"], ["run/rank2.json", "run/rank10.json", "run/sub/x.json"]),
    "a literal name beats its glob": (["a[1].json"], ["a[1].json"]),
    "same file twice": (["z", "./z", "z"], ["z"]),
    "file, then its folder": (
        ["run/sub/x.json", "run"],
        ["run/sub/x.json", "run/rank2.json", "run/rank10.json"],
    ),
    "folder twice": (["run/sub", "run/sub"], ["run/sub/x.json"]),
    "literal equals sign": (["lr=0.1/t.json"], ["lr=0.1/t.json"]),
    "equals sign in a glob": (["lr=*/t.json"], ["lr=0.1/t.json"]),
    "folders only": (["*/*/"], ["run/sub/x.json"]),
    "above": (["run/../z*"], ["run/../z"]),
    "any folders, twice": (["**/run/**/x.*"], ["run/sub/x.json"]),
}


@pytest.mark.parametrize(("arguments", "expected"), PATHS.values(), ids=PATHS)
def test_paths(work: Path, arguments: list[str], expected: list[str]) -> None:
    put(work, FILES)
    expansion = expand(arguments)
    assert names(expansion) == expected
    assert not expansion.notices
    assert {source.label for source in expansion.sources} == {""}


LABELS = {
    "file": (["new=z"], [("z", "new")]),
    "folder": (["new=run/sub"], [("run/sub/x.json", "new")]),
    "glob": (["new=run/*2.json"], [("run/rank2.json", "new")]),
    "path with an equals sign": (["new=lr=0.1"], [("lr=0.1/t.json", "new")]),
    "the first label of a file counts": (["a=z", "b=z"], [("z", "a")]),
    "a folder is no label": (["lr=0.1"], [("lr=0.1/t.json", "")]),
}


@pytest.mark.parametrize(("arguments", "expected"), LABELS.values(), ids=LABELS)
def test_labels(work: Path, arguments: list[str], expected: list[tuple[str, str]]) -> None:
    put(work, FILES)
    assert [(source.path, source.label) for source in expand(arguments).sources] == expected


NOT_FOUND = {
    "nothing there": ("gone.json", "no such file or folder", "check the path"),
    "near miss": ("run/rank3.json", "no such file or folder", "did you mean run/rank2.json?"),
    "label": ("new=nothing", "nothing: no such file or folder", "check the path"),
    "an equals sign in a folder": ("run/lr=1/z", "run/lr=1/z: no such file", "check the path"),
    "glob": ("run/*.csv", "no file matches this pattern", "hidden files"),
    "empty": ("", "no such file or folder", "check the path"),
    "file as a folder": ("z/z", "no such file or folder", "check the path"),
    "NUL": ("z\0*", "no file matches this pattern", "hidden"),
    "very long": ("y" * 300, "no such file or folder", "check the path"),
}


@pytest.mark.parametrize(("argument", "message", "hint"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_not_found(work: Path, argument: str, message: str, hint: str) -> None:
    put(work, FILES)
    with pytest.raises(InputError) as caught:
        expand(["z", argument])
    assert caught.value.kind == "not_found"
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_named_says_whether_the_user_named_this_file(work: Path) -> None:
    put(work, FILES | {"r.zip": zip_of({"m": A})})
    sources = expand(["z", "run/sub", "run/*2.json", "r.zip"]).sources
    assert [source.named for source in sources] == [True, False, False, False]


def test_fields_of_a_plain_file(work: Path) -> None:
    put(work, {"t.json.gz": gz(A)})
    (source,) = expand(["new=t.json.gz"]).sources
    assert source == Source(
        "t.json.gz", "new", named=True, file=str(work / "t.json.gz"), member=None, size=len(gz(A))
    )
    assert source.head() == A
    assert source.sha256() == hashlib.sha256(gz(A)).hexdigest()


def test_empty_file_is_not_an_error_here(work: Path) -> None:
    put(work, {"empty.json": b"", "x.zip": zip_of({"empty": b""}), "x.tar": tar_of({"empty": b""})})
    for source in expand(["empty.json", "x.zip", "x.tar"]).sources:
        assert source.head() == b""
        with source.open() as stream:
            assert (stream.read(10), stream.truncated, stream.trailing) == (b"", None, 0)


def test_left_out_of_a_folder(work: Path) -> None:
    put(work, {"f/._t.json": A, "f/__MACOSX/x": A, "f/.git/config": A, "f/.env": A, "f/t.json": A})
    os.mkfifo(work / "f/pipe")
    (work / "f/broken").symlink_to("gone")
    (work / "f/self").symlink_to("self")
    (work / "f/loop").symlink_to("..")
    (work / "f/zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("f/socket")
        expansion = expand(["f"])
    assert names(expansion) == ["f/t.json"]
    assert {(n.kind, n.source) for n in expansion.notices} == {("skipped_files", "f")}
    counts = {notice.message.partition(" are not read")[0]: notice.count for notice in expansion.notices}
    assert counts == {
        "macOS resource forks": 2,
        "hidden files": 2,
        paths.SPECIAL: 5,
        "links to folders that are read anyway": 1,
    }


def test_links_to_folders_are_followed_once(work: Path) -> None:
    put(work, {"data/t.json": A, "f/own.json": B})
    (work / "f/one").symlink_to("../data")
    (work / "f/two").symlink_to("../data")
    (work / "f/up").symlink_to("../f")
    expansion = expand(["f"])
    assert len(expansion.sources) == 2
    assert {source.head() for source in expansion.sources} == {A, B}
    (notice,) = expansion.notices
    assert notice.count == 2
    assert "links to folders that are read anyway" in notice.message


def test_a_named_pipe_is_refused_when_named(work: Path) -> None:
    os.mkfifo(work / "pipe")
    with pytest.raises(InputError, match="not a regular file") as caught:
        expand(["pipe"])
    assert caught.value.kind == "unsupported_format"
    assert caught.value.hint == "pipe it in: cat pipe | mpg analyze -"
    put(work, {"pipe.json": A})
    assert [n.kind for n in expand(["pipe*"]).notices] == ["skipped_files"]


@pytest.mark.parametrize("arguments", [["empty"], ["hidden"], []])
def test_nothing_at_all_is_an_error(work: Path, arguments: list[str]) -> None:
    put(work, {"hidden/.t.json": A})
    (work / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        expand(arguments)
    assert caught.value.kind == "not_found"
    assert caught.value.hint


def test_an_empty_folder_beside_a_full_one_is_a_notice(work: Path) -> None:
    put(work, {"z": A})
    (work / "empty").mkdir()
    expansion = expand(["empty", "z"])
    assert names(expansion) == ["z"]
    assert [n.message for n in expansion.notices] == ["not read: no files in this folder"]


def refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make a file unreadable, also for root."""
    real = io.FileIO.__init__

    class Guarded(io.FileIO):
        def __init__(self, file: str) -> None:
            if file.endswith(name):
                raise PermissionError(13, "Permission denied")
            real(self, file)

    monkeypatch.setattr("mpg_parsers.streams.io.FileIO", Guarded)


def test_unreadable_named_or_found(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(work, {"f/bad.json": A, "f/good.json": B})
    refuse(monkeypatch, "bad.json")
    with pytest.raises(InputError, match=r"f/bad.json: cannot be read: Permission denied") as caught:
        expand(["f/bad.json"])
    assert caught.value.kind == "unreadable"
    expansion = expand(["f"])
    assert names(expansion) == ["f/good.json"]
    assert [(n.kind, n.source) for n in expansion.notices] == [("skipped_files", "f/bad.json")]
    with pytest.raises(InputError, match="Permission denied"):
        expand(["f/b*"])  # nothing else was found


@pytest.mark.parametrize(
    "stored", [A, gz(A), b"", gz(A) + bytes(99)], ids=["plain", "gzip", "empty", "padded"]
)
def test_standard_input(tmp_path: Path, stored: bytes) -> None:
    with expand(["new=-", "-"], stdin=io.BytesIO(stored), spool_dir=tmp_path / "spool") as expansion:
        (source,) = expansion.sources
        assert (source.path, source.label, source.named, source.size) == ("-", "new", True, len(stored))
        for _ in range(2):
            assert source.head() == (A if stored else b"")
        assert Path(source.file).is_relative_to(tmp_path / "spool")
        assert Path(source.file).stat().st_mode & 0o77 == 0
    assert not list((tmp_path / "spool").iterdir())


@pytest.mark.parametrize(
    "pack", [zip_of({"a": A, "b": B}), tar_of({"a": A, "b": B}, "w:gz")], ids=["zip", "tar.gz"]
)
def test_archive_on_standard_input(tmp_path: Path, pack: bytes) -> None:
    with expand(["-"], stdin=io.BytesIO(pack), spool_dir=tmp_path) as expansion:
        assert [(source.path, source.head()) for source in expansion.sources] == [("-!a", A), ("-!b", B)]


def test_a_terminal_is_not_waited_for() -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    with pytest.raises(InputError, match="standard input is a terminal") as caught:
        expand(["-"], stdin=Terminal())
    assert "mpg analyze -" in caught.value.hint


class Endless(io.BytesIO):
    """Zeros, or whatever, without end; a reader that goes on is stopped."""

    def __init__(self, block: bytes) -> None:
        super().__init__()
        self._block, self.taken = block, 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.taken += size or 0
        assert 0 <= self.taken < 10 << 20
        return self._block * ((size or 0) // len(self._block))


@pytest.mark.parametrize("block", [b"\0", b"[rank0]:", b"\x7fELF"])
def test_what_nothing_reads_is_not_copied(tmp_path: Path, block: bytes) -> None:
    stream = Endless(block)
    with pytest.raises(InputError, match="no parser takes this file") as caught:
        expand(["-"], stdin=stream, spool_dir=tmp_path / "spool")
    assert caught.value.kind == "unsupported_format"
    assert stream.taken == 1 << 16
    assert not (tmp_path / "spool").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_ends_the_copy() -> None:
    with pytest.raises(InputError, match="cannot be copied to /dev: No space left") as caught:
        spool(b"{", Endless(b"{"), Path("/dev/full"), "-")
    assert caught.value.kind == "write_failed"


def test_standard_input_that_cannot_be_read(tmp_path: Path) -> None:
    class Folder(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise IsADirectoryError(21, f"Is a directory, not {size} bytes")

    with pytest.raises(InputError, match="cannot be read: Is a directory") as caught:
        expand(["-"], stdin=Folder(), spool_dir=tmp_path)
    assert caught.value.kind == "unreadable"


def test_an_error_leaves_no_copy_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        expand(["-", str(tmp_path / "gone")], stdin=io.BytesIO(A), spool_dir=tmp_path / "spool")
    assert not list((tmp_path / "spool").iterdir())


def test_spool_that_cannot_be_made(tmp_path: Path) -> None:
    put(tmp_path, {"file": A})
    with pytest.raises(InputError, match="cannot be copied to") as caught:
        expand(["-"], stdin=io.BytesIO(A), spool_dir=tmp_path / "file")
    assert caught.value.kind == "write_failed"


def test_reopened_in_another_process(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "p.json": gz(A),
            "x.zip": zip_of({"ä": A}),
            "x.tar": tar_of({"m": A}),
            "x.tgz": tar_of({"m": A}, "w:gz"),
        },
    )
    code = (
        "import sys; from mpg_parsers.source import Source\n"
        "for line in sys.stdin: print(Source.from_json(line).head().decode())"
    )
    arguments = [str(tmp_path / name) for name in ("p.json", "x.zip", "x.tar", "x.tgz")]
    with expand([*arguments, "-"], stdin=io.BytesIO(A), spool_dir=tmp_path) as expansion:
        lines = "\n".join(source.to_json() for source in expansion.sources)
        environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "parsers")}
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=lines,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == [A.decode()] * 5
        assert [Source.from_json(line) for line in lines.splitlines()] == expansion.sources


def test_names_that_are_not_utf8(work: Path) -> None:
    (work / os.fsdecode(b"rank\xff.json")).write_bytes(A)
    (source,) = expand(["."]).sources
    assert source.path == "rank?.json"
    assert Source.from_json(source.to_json()).head() == A


SORTED = [
    "a/1",
    "a/b2/x",
    "a/b10/x",
    "a-b",
    "rank2.json",
    "rank10.json",
    "rank010b.json",
    "rank" + "9" * 5000,
    "ranks",
]


def test_natural_order() -> None:
    assert sorted(set(SORTED), key=paths.natural_key) == SORTED


CASES = {
    "gz-named-json": (["input.json"], None, 0),
    "gz-trailing-garbage": (["input.json.gz"], None, 512),
    "gz-truncated": (["input.json.gz"], "gzip stream is truncated after 5411 decompressed bytes", 0),
    "zip-of-ranks": (
        ["traces.zip!traces/rank0.pt.trace.json", "traces.zip!traces/rank1.pt.trace.json"],
        None,
        0,
    ),
    "json-empty-file": (["input.json"], None, 0),
}


@pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the corpus of real and hard inputs is not beside the repository"
)
@pytest.mark.parametrize("case", CASES)
def test_corpus(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CORPUS / case)
    expected, truncated, trailing = CASES[case]
    expansion = expand([expected[0].partition("!")[0]])
    assert names(expansion) == expected
    assert [n.count for n in expansion.notices] == [1] * (case == "zip-of-ranks")
    for source in expansion.sources:
        with source.open() as stream:
            data = stream.read(1 << 20)
            assert len(data) == {"gz-truncated": 5411, "json-empty-file": 0}.get(case, 9324)
            assert (stream.truncated, stream.trailing) == (truncated, trailing)
