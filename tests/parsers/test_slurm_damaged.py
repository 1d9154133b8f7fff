"""Damaged files of Slurm: figures, or an InputError, and never anything else."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.slurm import make
from mpg_parsers.errors import InputError
from mpg_parsers.registry import ParseOptions
from mpg_parsers.slurm_files import SLURM
from mpg_parsers.source import Source
from mpg_parsers.tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path

SMALL = make.files() | {
    "short.psv": make.table(["JobID", "JobName", "Comment", "State", "Submit", "Start", "End"])
}
PIECES = [b"", b"|", b"\n", b"\0", b"\xff", b"9" * 30, b"[", b'"', b"{", b"=", b","]
EDIT = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES))


def parsed(folder: Path, content: bytes) -> None:
    """Whatever it is, it is read to the end or refused."""
    path = folder / "file"
    path.write_bytes(content)
    source = Source(str(path), "", True, str(path), None, len(content))
    if SLURM.sniff(content[:65536], "file"):
        return
    with suppress(InputError):
        for table, frame in SLURM.parse(source, ParseOptions()):
            assert frame.schema == TABLES[table].schema()


@pytest.mark.parametrize("name", sorted(SMALL))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(EDIT, min_size=1, max_size=6), cut=st.floats(0, 1))
def test_damage(tmp_path: Path, name: str, edits: list[tuple[float, int, bytes]], cut: float) -> None:
    content = SMALL[name].encode()
    for place, length, new in edits:
        at = int(place * len(content))
        content = content[:at] + new + content[at + length :]
    parsed(tmp_path, content[: max(64, int(cut * len(content)))])


@pytest.mark.parametrize(
    "text",
    [
        "JobID|State|Submit|Start|End\n" + "1|" * 3000 + "\n",
        "JobID|JobName|State|Submit|Start|End\n1|" + "|" * 500 + "\n",
        "NodeName=x[1-999999999] Gres=gpu:9 State=UNKNOWN\n",
        "SwitchName=a Switches=[[\n",
        "JobId=\nJobId= JobName=\n",
        "JobId=1 JobName=x " + "A=" * 50_000 + "\n",
        "NodeName= Arch=x\n",
        '{"jobs": [' + '{"job_id": ' * 3000,
        '{"jobs": [{"job_id": 1, "allocation_nodes": [], "time": {"start": 1e400, "limit": -1, "end": 99999999999}}]}',
        '{"nodes": [{"gres_used": [], "gres": 7, "name": "n", "state": 8, "partitions": 3, "tres_used": {}}]}',
        '{"sinfo": [{"nodes": 1}, {"nodes": {"nodes": [1, "a"]}, "gres": "", "partition": []}]}',
        "Cluster|NodeName|TimeStart|TimeEnd|State\n|||\n||||\n",
    ],
)
def test_odd_files(tmp_path: Path, text: str) -> None:
    parsed(tmp_path, text.encode())


def test_a_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"JobID|State|Submit|Start|End\n" + b"x" * (9 << 20))
    source = Source(str(path), "", True, str(path), None, path.stat().st_size)
    with pytest.raises(InputError, match="a line of over 8 MiB") as caught:
        list(SLURM.parse(source, ParseOptions()))
    assert caught.value.kind == "corrupt_input"
