from __future__ import annotations

import io
import lzma
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.errors import InputError
from mpg_parsers.nsysjax import packing
from mpg_parsers.nsysjax.layout import profiles
from mpg_parsers.registry import detect
from mpg_parsers.source import expand
from tests.parsers.archives import put, tar_of, zip_of
from tests.parsers.nsys_jax_archives import combined, files

if TYPE_CHECKING:
    from pathlib import Path

TRACE = "nvtx_gpu_proj_trace/trace.parquet"
AFTER = "dump/module_0040.pjit__f.sm_8.0_gpu_after_optimizations.hlo.pb.xz"


@pytest.mark.parametrize(
    ("names", "found", "foreign"),
    [
        ([], [], []),
        (["trace.parquet", "dump/a.hlo.pb"], [], ["dump/a.hlo.pb", "trace.parquet"]),
        ([f"x{TRACE}"], [], [f"x{TRACE}"]),
        ([TRACE], [("", "", {"trace.parquet": TRACE})], []),
        ([f"a/b/{TRACE}", "a/c.json"], [("a/b/", "", {"trace.parquet": f"a/b/{TRACE}"})], ["a/c.json"]),
        (
            [
                TRACE,
                AFTER,
                "dump/module_0040.pjit__f.0003.pass.hlo.pb",
                "r.nsys-rep",
                "r.sqlite",
                "other.json",
            ],
            [("", "", {"trace.parquet": TRACE, AFTER: AFTER})],
            ["other.json"],
        ),
        (
            [f"{TRACE}/p0", f"{TRACE}/p1", "device-metadata.parquet/p1", "system-metadata.parquet"],
            [
                ("", "p0", {"trace.parquet": f"{TRACE}/p0", "system.parquet": "system-metadata.parquet"}),
                (
                    "",
                    "p1",
                    {
                        "trace.parquet": f"{TRACE}/p1",
                        "system.parquet": "system-metadata.parquet",
                        "devices.parquet": "device-metadata.parquet/p1",
                    },
                ),
            ],
            [],
        ),
        (
            [f"a/{TRACE}", f"b/{TRACE}", "report_nvtx_pushpop_trace.parquet"],
            [("a/", "", {"trace.parquet": f"a/{TRACE}"}), ("b/", "", {"trace.parquet": f"b/{TRACE}"})],
            ["report_nvtx_pushpop_trace.parquet"],
        ),
    ],
)
def test_profiles(names, found, foreign):
    taken, ours = profiles(names)
    assert [(profile.root, profile.process, dict(profile.members)) for profile in taken] == found
    assert sorted(set(names) - ours) == foreign


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("dump/module_0001.jit_f.before_optimizations.hlo.pb", True),
        ("dump/module_0001.jit_f.gpu_after_optimizations.hlo.pb.xz", True),
        ("dump/module_0001.jit_f.after_optimizations.hlo.pb", True),
        ("dump/module_0001.jit_f.x.sm_9.0_gpu_after_optimizations.hlo.pb.xz/p0", True),
        ("dump/module_0001.jit_f.sm_8.0_gpu_after_optimizations-buffer-assignment.txt", False),
        ("dump/module_0001.jit_f.gpu_target_config.pbtxt.xz", False),
        ("dump/a/module_0001.jit_f.before_optimizations.hlo.pb", False),
    ],
)
def test_which_dumps_are_read(name, read):
    (profile, *_), _ = profiles([TRACE, f"{TRACE}/p0", name])
    assert (name in profile.members.values()) == read


def sources(*paths: Path | str) -> list[tuple[str, bool, str, str]]:
    with expand([str(path) for path in paths]) as expansion:
        return [(s.path, s.named, detect_name(s), s.sha256()) for s in expansion.sources]


def detect_name(source) -> str:
    if packing.is_packed(source.head()):
        return "nsys-jax"
    return detect(source).name


def test_an_archive_and_what_it_was_unpacked_to_are_the_same_source(tmp_path, monkeypatch):
    content = files()
    folder = put(tmp_path / "run", content)
    archive = tmp_path / "run.zip"
    archive.write_bytes(zip_of(content))
    around = tmp_path / "again.tgz"
    around.write_bytes(tar_of({f"run/{name}": data for name, data in content.items()}, "w:gz"))
    found = sources(archive, folder, around)
    assert [row[:3] for row in found] == [
        (str(archive), True, "nsys-jax"), (str(folder), True, "nsys-jax"), (f"{around}!run", False, "nsys-jax"),
    ]  # fmt: skip
    assert len({row[3] for row in found}) == 1
    monkeypatch.chdir(folder)
    assert [row[:3] for row in sources(".")] == [(".", True, "nsys-jax")]
    assert len(sources(tmp_path)) == 3
    assert len(sources(archive, archive, folder, f"{folder}/*")) == 2


def test_combined_archives_are_one_source_per_process(tmp_path):
    archive = tmp_path / "all.zip"
    archive.write_bytes(zip_of(combined()))
    folder = put(tmp_path / "all", combined())
    assert [row[:2] for row in sources(archive, folder)] == [
        (f"{archive}!p0", False), (f"{archive}!p1", False), (f"{folder}!p0", True), (f"{folder}!p1", True),
    ]  # fmt: skip


def test_what_does_not_belong_is_read_as_ever(tmp_path):
    trace = b'{"traceEvents": [{"ph": "X", "cat": "kernel"}]}'
    archive = tmp_path / "a.zip"
    archive.write_bytes(zip_of(files() | {"extra/rank0.json": trace, "run.nsys-rep": b"NVTX"}))
    with expand([str(archive)]) as expansion:
        assert [source.path for source in expansion.sources] == [
            str(archive),
            f"{archive}!extra/rank0.json",
        ]
        assert [(n.kind, n.count) for n in expansion.notices] == [("skipped_files", 1)]
        assert "run.nsys-rep" in expansion.notices[0].message
    archive.write_bytes(zip_of({"rank0.json": trace, "dump/rank1.json": trace}))
    assert [row[0] for row in sources(archive)] == [f"{archive}!dump/rank1.json", f"{archive}!rank0.json"]


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        sources(path)
    return caught.value


def test_a_damaged_member_is_an_error_of_a_named_archive_and_a_notice_of_others(tmp_path):
    archive = tmp_path / "a.zip"
    data = bytearray(zip_of(files(), method=0))
    at = data.index(b"PAR1") + 10
    data[at] ^= 255
    archive.write_bytes(data)
    assert refused(archive).kind == "corrupt_input"
    (tmp_path / "b.json").write_bytes(b'{"traceEvents": []}')
    with expand([str(tmp_path)]) as expansion:
        assert [source.path for source in expansion.sources] == [str(tmp_path / "b.json")]
        assert [notice.kind for notice in expansion.notices] == ["skipped_files"]


def test_sizes_are_bounded(tmp_path, monkeypatch):
    archive = tmp_path / "a.zip"
    archive.write_bytes(zip_of(files()))
    monkeypatch.setattr(packing, "MAX_MEMBER", 1000)
    assert refused(archive).kind == "unsupported_format"
    monkeypatch.setattr(packing, "MAX_MEMBER", 1 << 20)
    monkeypatch.setattr(packing, "MAX_TOTAL", 1000)
    assert refused(archive).kind == "unsupported_format"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (lzma.compress(b"x" * 1000)[:-20], "truncated_input"),
        (b"", "truncated_input"),
        (b"this is no xz at all", "corrupt_input"),
        (lzma.compress(bytes(3 << 20)), "unsupported_format"),
    ],
)
def test_damaged_and_hostile_xz(data, kind, monkeypatch):
    with pytest.raises(InputError) as caught:
        packing.unpacked(data, "a.xz", "p", 2 << 20)
    assert caught.value.kind == kind


@given(st.binary(max_size=3000))
def test_xz_is_unpacked_as_the_library_does(data):
    assert packing.unpacked(lzma.compress(data), "a.xz", "p") == data


def test_a_member_that_is_cut_meanwhile(tmp_path):
    member = ("trace.parquet", 10, lambda: io.BytesIO(b"short"))
    with pytest.raises(InputError) as caught:
        packing.pack([member], tmp_path / "out", "p")
    assert caught.value.kind == "truncated_input"


def test_a_pack_is_a_tar(tmp_path):
    packing.pack(
        [("z", 1, lambda: io.BytesIO(b"z")), ("trace.parquet", 3, lambda: io.BytesIO(b"abc"))],
        tmp_path / "t",
        "p",
    )
    with tarfile.open(tmp_path / "t") as tar:
        assert [(m.name, m.size) for m in tar] == [("nsys-jax/trace.parquet", 3), ("nsys-jax/z", 1)]
    assert packing.is_packed((tmp_path / "t").read_bytes())
