"""The small languages of Slurm: lists of hosts, durations, resources, states, command lines, comments."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.slurm import durations, hostlist, labels, states, submit_line, times, tres

SECOND = 1_000_000_000

# -------------------------------------------------------------------------------------------------------- hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("c1", ["c1"]),
        ("a,b,c", ["a", "b", "c"]),
        ("nodes[006,011]", ["nodes006", "nodes011"]),
        ("gpu-a[01-03,07],gpu-b2", ["gpu-a01", "gpu-a02", "gpu-a03", "gpu-a07", "gpu-b2"]),
        ("r[1-2]n[08-10]x", ["r1n08x", "r1n09x", "r1n10x", "r2n08x", "r2n09x", "r2n10x"]),
        ("n[9-10]", ["n9", "n10"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
    ],
)
def test_hosts(text: str, names: list[str]) -> None:
    assert hostlist.expand(text) == names
    assert json.loads(hostlist.as_json(text) or "") == names


@pytest.mark.parametrize(
    "text",
    ["n[1-", "n1]", "n[[1]]", "n[2-1]", "n[a-b]", "n[1-9999999999]", "a b", "n[]", ",a", "n[1-500][1-500]"],
)
def test_what_is_no_list_of_hosts(text: str) -> None:
    with pytest.raises(hostlist.HostlistError):
        hostlist.expand(text)
    assert hostlist.as_json(text) is None
    assert not hostlist.is_hostlist(text)


@pytest.mark.parametrize("text", ["None assigned", "", "(null)"])
def test_no_hosts(text: str) -> None:
    assert hostlist.as_json(text) is None
    assert hostlist.is_hostlist(text)


PREFIXES = st.text("abcdefgh-", min_size=1, max_size=4)
RANGES = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 12)), min_size=1, max_size=4)
ITEMS = st.tuples(PREFIXES, st.lists(st.tuples(RANGES, st.integers(1, 4)), max_size=2))


def written(item: tuple[str, list[tuple[list[tuple[int, int]], int]]]) -> tuple[str, list[str]]:
    """An item of a list of hosts and its names, made one by one."""
    text, names = item[0], [item[0]]
    for ranges, width in item[1]:
        parts = [f"{first:0{width}d}" + (f"-{first + more}" if more else "") for first, more in ranges]
        text += f"[{','.join(parts)}]"
        numbers = [f"{n:0{width}d}" for first, more in ranges for n in range(first, first + more + 1)]
        names = [name + number for name in names for number in numbers]
    return text, names


@given(st.lists(ITEMS, min_size=1, max_size=4))
def test_hosts_round_trip(items: list[tuple[str, list[tuple[list[tuple[int, int]], int]]]]) -> None:
    pairs = [written(item) for item in items]
    assert hostlist.expand(",".join(text for text, _ in pairs)) == [
        name for _, names in pairs for name in names
    ]


@given(st.text("ab[],-019 ", max_size=30))
def test_any_text_is_hosts_or_refused(text: str) -> None:
    assert (hostlist.as_json(text) is not None) <= hostlist.is_hostlist(text)


# ---------------------------------------------------------------------------------------------------- durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2-01:24:56", 177_896),
        ("11-00:00:00", 950_400),
        ("100:00:00", 360_000),
        ("00:00.042", 0.042),
        ("04:03.123", 243.123),
        ("1-00", 86_400),
        ("1-02:03", 93_780),
        ("61", 61),
        ("1.500", 1.5),
        ("INVALID", None),
        ("UNLIMITED", None),
        ("", None),
        ("1:2:3:4", None),
        ("99999999999999", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    wanted = None if seconds is None else round(seconds * SECOND)
    assert durations.clock_ns(text) == wanted
    assert durations.column(pl.Series([text, None, text])).to_list() == [wanted, None, wanted]


def test_limits() -> None:
    assert durations.limit_ns("30") == 1800 * SECOND
    assert durations.limit_ns("30:00") == 1800 * SECOND
    assert durations.numbers(pl.Series(["2", "UNLIMITED", None, "-1"]), durations.MINUTE).to_list() == [
        120 * SECOND, None, None, None,
    ]  # fmt: skip
    assert durations.is_duration("Partition_Limit")
    assert not durations.is_duration("gpu01")


# ---------------------------------------------------------------------------------------------------- resources


@pytest.mark.parametrize(
    ("text", "total", "types"),
    [
        ("billing=1,cpu=1,gres/gpu:h100=8,gres/gpu=8,node=1", 8, {"h100": 8}),
        ("gres/gpu=2", 2, {}),
        ("gres/gpu:a100=2,gres/gpu:h100=4", 6, {"a100": 2, "h100": 4}),
        ("gres/gpu:a100=2,gres/gpu:h100=4,gres/gpu=6", 6, {"a100": 2, "h100": 4}),
        ("cpu=4,gres/gpumem=80G,gres/gpuutil=3,gres/shard=4,gres/mps=100", 0, {}),
        ("gres/tpu:v5p=4,gres/npu=8,gres/gpu=1", 13, {"v5p": 4}),
        ("gres/gpu=1K", 1024, {}),
        ("", 0, {}),
    ],
)
def test_tres(text: str, total: int, types: dict[str, int]) -> None:
    assert (tres.from_tres(text).total, tres.from_tres(text).by_type) == (total, types)


@pytest.mark.parametrize(
    ("text", "total", "kind"),
    [
        ("gpu", 1, None),
        ("gpu:4", 4, None),
        ("gres:gpu:4", 4, None),
        ("gres/gpu:h100:8", 8, "h100"),
        ("gpu:a100:8(S:0-1)", 8, "a100"),
        ("gpu:h100:4(IDX:0,2-3)", 4, "h100"),
        ("gpu:a100:0(IDX:N/A)", 0, None),
        ("gpu:nvidia_h100_80gb_hbm3:2", 2, "nvidia_h100_80gb_hbm3"),
        ("gpu:1g.10gb:7", 7, "1g.10gb"),
        ("gpu:a100:2,gpu:h100:1,mps:100", 3, None),
        ("shard:8", 0, None),
        ("gres/gpu=2", 2, None),
        ("(null)", 0, None),
    ],
)
def test_gres(text: str, total: int, kind: str | None) -> None:
    assert (tres.from_gres(text).total, tres.from_gres(text).type) == (total, kind)


def test_times_as_many() -> None:
    chips = tres.from_gres("gpu:h100:4").times(3)
    assert (chips.total, chips.as_json()) == (12, '{"h100": 12}')


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"|cpu=1,gres/gpu=8|", True),
        (b'{"type": "gres", "name": "gpu:h100", "id": 1}', True),
        (b"|cpu=1|sbatch --gres=gpu:8|", False),
        (b"sbatch --tres-per-task=gres/gpu:8", False),
        (b"gres/gpumem=8", False),
    ],
)
def test_the_sign_of_counted_chips(text: bytes, found: bool) -> None:
    assert (tres.SIGN.search(text) is not None) == found


# ------------------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("CANCELLED by 32874", "CANCELLED"), ("CANCELLED+", "CANCELLED"), ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "NODE_FAIL"), ("PD", "PENDING"), ("R", "RUNNING"), ("REQUEUED", "REQUEUED"), ("NEW", "NEW"),
        ("RE+", "RE"), ("BOOT_FAIL", "BOOT_FAIL"),
    ],
)  # fmt: skip
def test_job_states(text: str, word: str) -> None:
    assert states.job_state(text) == word


def test_who_cancelled() -> None:
    assert states.cancelled_by("CANCELLED by 32874") == "32874"
    assert states.cancelled_by("CANCELLED+") is None
    assert states.of_flags(["PENDING", "RESIZING"]) == "RESIZING"
    assert states.of_flags(["COMPLETED"]) == "COMPLETED"
    assert states.of_flags([]) == ""


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("IDLE", "up"), ("MIXED", "up"), ("ALLOCATED", "up"), ("DOWN*", "down"), ("IDLE*", "down"),
        ("IDLE+DRAIN", "drained"), ("MIXED+DRAIN", "draining"), ("ALLOCATED+DRAIN", "draining"), ("DRAIN", "drained"),
        ("DRAINING", "draining"), ("DRAINED", "drained"), ("DOWN+DRAIN", "down"), ("MAINT", "maintenance"),
        ("IDLE+MAINTENANCE+RESERVED", "maintenance"), ("IDLE+RESERVED", "reserved"), ("IDLE+POWERED_DOWN", "down"),
        ("IDLE+PLANNED", "up"),
        ("IDLE~", "down"), ("MIXED#", "down"), ("IDLE$", "maintenance"), ("IDLE-", "up"), ("UNKNOWN", None), ("", None),
    ],
)  # fmt: skip
def test_node_states(text: str, state: str | None) -> None:
    assert states.node_state(text) == state


# ------------------------------------------------------------------------------------------------ command lines


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("sbatch job.sh", None),
        ("sbatch --dependency=afterok:1 job.sh", ["dependency"]),
        ("sbatch -d singleton job.sh", ["dependency"]),
        ("sbatch -dsingleton job.sh", ["dependency"]),
        ("sbatch --depend afterok:1:2 -N 2 job.sh", ["dependency"]),
        ("sbatch --begin=now+1hour -H job.sh", ["begin_time", "held"]),
        ("sbatch -b 16:00 job.sh", ["begin_time"]),
        ("sbatch --hold job.sh", ["held"]),
        ("sbatch --array=1-6%2 job.sh", ["array_limit"]),
        ("sbatch -a 1-6%2 job.sh", ["array_limit"]),
        ("sbatch --array=1-6 job.sh", None),
        ("sbatch job.sh -d x --hold", None),
        ("sbatch -N 2 job.sh --begin=5", None),
        ("sbatch --wrap=python train.py --hold", None),
        ("sbatch -J my long name -d afterok:3 job.sh", ["dependency"]),
        ("sbatch -vH job.sh", ["held"]),
        ("sbatch --parsable --requeue -d x job.sh", ["dependency"]),
        ("", None),
    ],
)
def test_holds(line: str, holds: list[str] | None) -> None:
    found = submit_line.wishes(line).holds
    assert (json.loads(found) if found else None) == holds
    if holds:
        assert pl.Series([line]).str.contains(submit_line.SIGN).all()


@pytest.mark.parametrize(
    ("text", "switches", "wait"),
    [
        ("1@00:10:00", 1, 600),
        ("2", 2, None),
        ("1@10", 1, 600),
        ("1@1-00:00:00", 1, 86_400),
        ("0", None, None),
        ("x", None, None),
    ],
)
def test_switches(text: str, switches: int | None, wait: int | None) -> None:
    found = (switches, None if wait is None else wait * SECOND)
    assert submit_line.switches_of(text) == found
    wishes = submit_line.wishes(f"sbatch -p gpu --switches={text} job.sh")
    assert (wishes.switches, wishes.wait_ns) == found


@given(st.text(max_size=60))
def test_any_command_line(line: str) -> None:
    assert submit_line.wishes(line).switches != 0


# ----------------------------------------------------------------------------------------------------- comments


@pytest.mark.parametrize(
    ("comment", "wckey", "found"),
    [
        ("model=llama;team=nlp", None, {"model": "llama", "team": "nlp"}),
        ("model=llama, team=nlp", None, {"model": "llama", "team": "nlp"}),
        ("model=llama;shape=2,4;", None, {"model": "llama", "shape": "2,4"}),
        ("model=llama", "*vision", {"model": "llama", "wckey": "vision"}),
        ("please run y=ax fast; thanks", None, None),
        ("a;b=1", None, None),
        ("", "", None),
        (None, "vision", {"wckey": "vision"}),
    ],
)
def test_labels(comment: str | None, wckey: str | None, found: dict[str, str] | None) -> None:
    text = labels.of_comment(comment, wckey)
    assert (json.loads(text) if text else None) == found


# -------------------------------------------------------------------------------------------------------- times

MIDNIGHT = 1_767_571_200


@pytest.mark.parametrize(
    ("text", "tz", "second", "naive"),
    [
        ("1767571200", "", 0, None),
        ("2026-01-05T00:00:00", "", 0, True),
        ("2026-01-05T00:00:00", "Europe/Berlin", -3600, True),
        ("2026-01-05T00:00:00+0100", "", -3600, False),
        ("2026-01-05T00:00:00+01:00", "", -3600, False),
        ("2026-01-05T00:00:00Z", "", 0, False),
        ("2026-01-05 00:00:00", "", 0, True),
        ("2026/01/05-00:00:01", "", 1, True),
        ("Mon Jan 05 00:00:02 2026", "", 2, True),
        ("Unknown", "", None, None),
        ("None", "", None, None),
        ("4294967294", "", None, None),
        ("0", "", None, None),
    ],
)
def test_times(text: str, tz: str, second: int | None, naive: bool | None) -> None:
    read = times.column(pl.Series([text]), tz)
    wanted = None if second is None else (MIDNIGHT + second) * SECOND
    assert (read.ns[0], read.naive, read.bad[0]) == (wanted, naive, False)


@pytest.mark.parametrize("text", ["14:43:40", "Ystday 14:43", "05/01/2026", "train", "2026-13-05T00:00:00"])
def test_what_is_no_time(text: str) -> None:
    assert times.column(pl.Series([text]), "").bad[0]
