"""Zips and tars: listed without unpacking, read in place, refused when they are damaged."""

from __future__ import annotations

import contextlib
import hashlib
import io
import stat
import struct
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpg_parsers import containers, paths
from mpg_parsers.containers import is_tar, list_tar, list_zip
from mpg_parsers.errors import InputError
from mpg_parsers.source import Expansion, expand
from tests.parsers.archives import gz, put, tar_of, zip_of

if TYPE_CHECKING:
    from pathlib import Path

A, B = b'{"rank": 0}' * 20, b'{"rank": 1}' * 30
RANKS = {"t/rank10.json": B, "t/rank2.json": A}

ARCHIVES = {
    "zip": zip_of(RANKS),
    "zip, stored": zip_of(RANKS, zipfile.ZIP_STORED),
    "zip after a program": b"PK\x03\x04 self-extracting" + zip_of(RANKS),
    "zip of gzip": zip_of({name: gz(data) for name, data in RANKS.items()}),
    "tar": tar_of(RANKS),
    "tar, GNU": tar_of(RANKS, fmt=tarfile.GNU_FORMAT),
    "tar of gzip": tar_of({name: gz(data) for name, data in RANKS.items()}),
    "tar.gz": tar_of(RANKS, "w:gz"),
    "tar.bz2": tar_of(RANKS, "w:bz2"),
    "tar.xz": tar_of(RANKS, "w:xz"),
    "tar.gz, padded": tar_of(RANKS, "w:gz") + bytes(512),
}


@pytest.mark.parametrize("stored", ARCHIVES.values(), ids=ARCHIVES)
@pytest.mark.parametrize("name", ["ranks.json", "ranks.zip"])
def test_members_whatever_the_name(tmp_path: Path, stored: bytes, name: str) -> None:
    put(tmp_path, {name: stored})
    with expand([str(tmp_path / name)], spool_dir=tmp_path / "spool") as expansion:
        first, second = expansion.sources
        assert [first.member, second.member] == ["t/rank2.json", "t/rank10.json"]
        assert first.path == f"{tmp_path / name}!t/rank2.json"
        assert (first.head(), second.head(5)) == (A, B[:5])
        assert not first.named
        assert not expansion.notices
    assert not list((tmp_path / "spool").glob("*"))


def test_sha256_and_size_are_of_the_member_as_stored(tmp_path: Path) -> None:
    packed = gz(A)
    put(tmp_path, {"x.zip": zip_of({"a": A, "b": packed}), "x.tar": tar_of({"b": packed})})
    plain, zipped, tarred = expand([str(tmp_path / "x.zip"), str(tmp_path / "x.tar")]).sources
    assert plain.sha256() == hashlib.sha256(A).hexdigest()
    assert plain.size < len(A)
    assert zipped.sha256() == tarred.sha256() == hashlib.sha256(packed).hexdigest()
    assert tarred.size == len(packed)


LEFT_OUT = {
    "__MACOSX/t/._rank0.json": b"\0\5\x16\7",
    "t/._rank0.json": b"\0\5\x16\7",
    "t/.DS_Store": b"x",
    "t/inner.zip": zip_of({"a": A}),
    "t/inner.json": tar_of({"a": A}),
    "t/inner.tgz": tar_of({"a": A}, "w:gz"),
}
REASONS = [
    "macOS resource forks are not read: __MACOSX/t/._rank0.json, t/._rank0.json",
    "hidden files are not read: t/.DS_Store",
    "archives within an archive are not read: t/inner.json, t/inner.tgz, t/inner.zip",
]


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_members_left_out(tmp_path: Path, pack: type[bytes]) -> None:
    put(tmp_path, {"x": pack(LEFT_OUT | {"t/rank0.json": A})})
    expansion = expand([str(tmp_path / "x")])
    assert [source.member for source in expansion.sources] == ["t/rank0.json"]
    assert [(notice.kind, notice.message) for notice in expansion.notices] == [
        ("skipped_files", r) for r in REASONS
    ]
    assert [notice.count for notice in expansion.notices] == [2, 1, 3]
    assert {notice.source for notice in expansion.notices} == {str(tmp_path / "x")}


def test_names_never_become_paths(tmp_path: Path) -> None:
    names = ["../../evil", "/etc/evil", "a/../../b", "c\x1b[31m", "d\\..\\e"]
    put(
        tmp_path, {"x.zip": zip_of(dict.fromkeys(names, A)), "x.tgz": tar_of(dict.fromkeys(names, A), "w:gz")}
    )
    before = sorted(tmp_path.rglob("*"))
    with expand([str(tmp_path / "x.zip"), str(tmp_path / "x.tgz")], spool_dir=tmp_path) as expansion:
        assert {source.head() for source in expansion.sources} == {A}
        assert len(expansion.sources) == 10
        assert [path.name.startswith("tmp") for path in expansion.spool.iterdir()] == [True]
    assert sorted(tmp_path.rglob("*")) == before


def test_the_last_of_two_members_of_one_name_counts(tmp_path: Path) -> None:
    stored = zip_of({"a": A, "b": B}).replace(b"b", b"a")
    put(tmp_path, {"x.zip": stored})
    expansion = expand([str(tmp_path / "x.zip")])
    (source,) = expansion.sources
    assert source.head() == B
    (notice,) = expansion.notices
    assert (notice.kind, notice.message) == ("skipped_files", f"{containers.REPLACED} are not read: a")


def test_links_in_archives_are_left_out(tmp_path: Path) -> None:
    tar, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("empty"))
    with zipfile.ZipFile(zipped, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
        archive.writestr("empty", b"")
        archive.mkdir("folder")
    put(tmp_path, {"x.tar": tar.getvalue(), "x.zip": zipped.getvalue()})
    expansion = expand([str(tmp_path / "x.tar"), str(tmp_path / "x.zip")])
    assert [(source.member, source.head()) for source in expansion.sources] == [("empty", b"")] * 2
    assert [notice.message for notice in expansion.notices] == [
        "links, devices and sparse files are not read: link",
        "links are not read: link",
    ]


DOCUMENTS = {
    "checkpoint": {"model/data.pkl": b"x", "model/data/0": b"y"},
    "numpy": {"a.npy": b"x", "b.npy": b"y"},
    "office": {"[Content_Types].xml": b"x", "xl/workbook.xml": b"y"},
    "jar": {"META-INF/MANIFEST.MF": b"x"},
}


@pytest.mark.parametrize("members", DOCUMENTS.values(), ids=DOCUMENTS)
def test_zips_that_are_one_document(tmp_path: Path, members: dict[str, bytes]) -> None:
    put(tmp_path, {"model.pt": zip_of(members)})
    (source,) = expand([str(tmp_path / "model.pt")]).sources
    assert source.member is None


def patched(data: bytes, field: int, value: int) -> bytes:
    """A zip of one member with a field of its directory entry set: 8 flags, 10 method."""
    out = bytearray(data)
    struct.pack_into("<H", out, data.index(b"PK\x01\x02") + field, value)
    return bytes(out)


ONE = zip_of({"a": A})
REFUSED = {
    "encrypted": (patched(ONE, 8, 1), "unsupported_format", "member a is encrypted"),
    "rare method": (patched(ONE, 10, 9), "unsupported_format", "packed by method 9"),
    "future version": (patched(ONE, 6, 99), "unsupported_format", "zip file version 9.9"),
    "bzip2 in zip": (zip_of({"a": A}, zipfile.ZIP_BZIP2), "unsupported_format", "packed by method 12"),
    "cut zip": (zip_of(RANKS)[:-30], "truncated_input", "directory at its end is missing"),
    "zip without its beginning": (b"PK\x03\x04" + ONE[60:], "corrupt_input", "this zip is damaged"),
    "empty zip": (zip_of({}), "empty_input", "no files to read in this archive"),
    "zip of hidden files": (zip_of({".a": A}), "empty_input", "no files to read in this archive"),
    "cut in the first member": (tar_of({"a": A})[:600], "truncated_input", "no member of it is whole"),
    "damaged first header": (b"X" + tar_of({"a": A})[1:], "corrupt_input", "bad checksum"),
    "damaged second header": (
        tar_of({"a": A, "b": B}).replace(b"b\0", b"c\0", 1),
        "corrupt_input",
        "bad checksum at offset 1024",
    ),
    "damaged tar.gz": (tar_of({"a": bytes(600_000)}, "w:gz")[:-5] + b"\xff" * 5, "corrupt_input", "checksum"),
    "damaged tar.bz2": (
        tar_of({"a": A}, "w:bz2")[:-5] + b"\xff" * 5,
        "corrupt_input",
        "damaged compressed data",
    ),
    "damaged tar.xz": (
        tar_of({"a": A}, "w:xz")[:-9] + b"\xff" * 9,
        "corrupt_input",
        "damaged compressed data",
    ),
}


@pytest.mark.parametrize(("stored", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path: Path, stored: bytes, kind: str, message: str) -> None:
    put(tmp_path, {"x": stored, "folder/good.json": A, "folder/x": stored})
    with pytest.raises(InputError) as caught:
        expand([str(tmp_path / "x")], spool_dir=tmp_path / "spool")
    assert (caught.value.kind, caught.value.path) == (kind, str(tmp_path / "x"))
    assert message in caught.value.message
    assert caught.value.hint
    assert not list((tmp_path / "spool").glob("*"))

    with expand([str(tmp_path / "folder")], spool_dir=tmp_path / "spool") as expansion:
        assert [source.path for source in expansion.sources] == [str(tmp_path / "folder" / "good.json")]
        (notice,) = (n for n in expansion.notices if not n.message.startswith("hidden"))
        assert notice.kind == ("truncated_input" if kind == "truncated_input" else "skipped_files")
        assert message in notice.message


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_every_byte_of_a_zip_flipped(tmp_path: Path, method: int) -> None:
    data, path = b"rank 0, rank 0, rank 1", tmp_path / "x.zip"
    stored = zip_of({"a": data}, method)
    for place in range(4, len(stored)):
        for mask in (0x01, 0x10, 0xFF):
            damaged = bytearray(stored)
            damaged[place] ^= mask
            path.write_bytes(damaged)
            with contextlib.suppress(InputError):
                assert [source.head() for source in expand([str(path)]).sources] == [data]


def attempt(paths: list[str], spool_dir: Path) -> Expansion | InputError:
    try:
        return expand(paths, spool_dir=spool_dir)
    except InputError as error:
        return error


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_cut_tar(tmp_path: Path, mode: str) -> None:
    """Whole members are used and the cut one is named; with none whole, it is an error."""
    members = {"a": A, "b": B * 9, "c": A}
    stored, path = tar_of(members, mode), tmp_path / "x"
    step = 64 if mode == "w" else 1
    for length in range(512 if mode == "w" else 200, len(stored), step):
        path.write_bytes(stored[:length])
        expansion = attempt([str(path)], tmp_path / "spool")
        if isinstance(expansion, InputError):
            assert expansion.kind == "truncated_input"
            continue
        with expansion:
            got = {source.member: source.head(1 << 20) for source in expansion.sources}
            kinds = [notice.kind for notice in expansion.notices]
        assert got.items() <= members.items()
        assert got.keys() == members.keys() or kinds == ["truncated_input"]


def test_the_cut_member_is_named(tmp_path: Path) -> None:
    put(tmp_path, {"x": tar_of({"a": A, "b": B})[:1600]})
    expansion = expand([str(tmp_path / "x")])
    assert [source.member for source in expansion.sources] == ["a"]
    assert [notice.message for notice in expansion.notices] == [
        "this tar is truncated: member b is cut and left out"
    ]


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["zip", "pax", "gnu"]),
    edits=st.lists(
        st.tuples(st.integers(4, 5000), st.binary(min_size=1, max_size=12)), min_size=1, max_size=4
    ),
    cut=st.none() | st.integers(0, 5000),
)
def test_any_damage_is_an_input_error(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    edits: list[tuple[int, bytes]],
    cut: int | None,
) -> None:
    members = {"n" * 150: A, "é": B}
    fmt = tarfile.GNU_FORMAT if kind == "gnu" else tarfile.PAX_FORMAT
    stored = bytearray(zip_of(members) if kind == "zip" else tar_of(members, fmt=fmt)[:5000])
    for place, value in edits:
        start = place % len(stored)
        stored[start : start + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(stored[:cut])
    list_members = list_zip if kind == "zip" else list_tar
    with contextlib.suppress(InputError):
        list_members(str(path), "fuzz")


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "MAX_FILES", 3)
    members = {str(n): b"" for n in range(4)}
    put(tmp_path, {"x.zip": zip_of(members), "x.tar": tar_of(members)} | {f"f/{n}": b"" for n in members})
    for name in ("x.zip", "x.tar", "f"):
        with pytest.raises(InputError, match="holds more than 3 files") as caught:
            expand([str(tmp_path / name)])
        assert caught.value.hint


def test_a_huge_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "MAX_DIRECTORY", 66_000)
    pax = tarfile.TarInfo("a")
    pax.pax_headers = {"comment": "x" * 70_000}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(pax)
    put(tmp_path, {"x.zip": zip_of({f"{n:0200}": b"" for n in range(300)}), "x.tar": out.getvalue()})
    for name in ("x.zip", "x.tar"):
        with pytest.raises(InputError, match="above the limit of 66000"):
            expand([str(tmp_path / name)])


@pytest.mark.parametrize(
    ("head", "tar"),
    [(b"", False), (bytes(512), False), (b'{"a": 1}' * 64, False), (tar_of({"a": A})[:512], True)],
)
def test_is_tar(head: bytes, *, tar: bool) -> None:
    assert is_tar(head) is tar


def test_old_tars_have_no_magic() -> None:
    info = tarfile.TarInfo("a")
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[257:265] = bytes(8)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    assert is_tar(bytes(block))
