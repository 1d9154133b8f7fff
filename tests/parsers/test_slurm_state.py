"""Events, nodes, topology, configuration, the controller's log, the queue and roll-ups of Slurm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fixtures.slurm import make, texts
from mpg_parsers.errors import InputError
from mpg_parsers.slurm_files import SLURM
from tests.mpg_cli.running import ROOT
from tests.parsers.reading import notices, read, read_text

if TYPE_CHECKING:
    from pathlib import Path

FIXTURES = ROOT / "fixtures/slurm/tiny"
SECOND = 1_000_000_000


def at(second: float) -> int:
    return round((make.MIDNIGHT + second) * 1000) * 1_000_000


def table(name: str, file: str) -> list[dict[str, Any]]:
    return read(SLURM, FIXTURES / file)[name].to_dicts()


def told(rows: pl.DataFrame | list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    rows = rows.to_dicts() if isinstance(rows, pl.DataFrame) else rows
    return [tuple(row[name] for name in names) for row in rows]


# ------------------------------------------------------------------------------------------------------- events


def test_events() -> None:
    found = read(SLURM, FIXTURES / "sacctmgr_events.psv")
    rows = found["capacity"]
    assert told(rows, "node", "chips", "state", "start_ns", "end_ns") == [
        (None, 16, "up", at(0), None),
        ("n3", 4, "down", at(2000), at(2120)),
        ("n2", 4, "drained", at(6000), None),
    ]
    assert rows["chips_by_type"].to_list() == ['{"h100": 16}', '{"h100": 4}', '{"h100": 4}']
    assert rows["reason"][2] == "xid 79|gpu lost"
    assert notices(found) == [("repaired_input", 1)]
    assert told(found["sources"], "as_of_ns", "naive_time", "events") == [(at(7200), True, 3)]


def test_events_without_what_one_may_ask_for(tmp_path: Path) -> None:
    text = (
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
        "tiny||1767571200|Unknown||Cluster Registered TRES|\n"
        "tiny||1767571300|1767571400||slurmctld disconnect|\n"
        "tiny|n1|1767571200|1767571260|MAINT|a|b|c|root(0)\n"
    )
    rows = read_text(SLURM, tmp_path, text)["capacity"]
    assert told(rows, "node", "chips", "state", "reason") == [
        (None, None, "up", "Cluster Registered TRES"),
        (None, None, "up", "slurmctld disconnect"),
        ("n1", None, "maintenance", "a|b|c"),
    ]


# -------------------------------------------------------------------------------------------------------- nodes

NODES = [
    ("n1", 4, "h100", "up", None, 0, at(4600)),
    ("n2", 4, "h100", "drained", "xid 79, State=odd", 0, None),
    ("n3", 4, "h100", "up", None, 4, None),
    ("n4", 4, "h100", "draining", "burn in", 4, None),
]
SEEN = ("node", "chips", "chip_type", "state", "reason", "chips_allocated", "last_busy_ns")


@pytest.mark.parametrize("lines", ["several", "one"])
def test_nodes(tmp_path: Path, lines: str) -> None:
    text = texts.NODES
    if lines == "one":
        text = "\n".join(" ".join(record.split("\n")) for record in text.split("\n\n"))
    rows = read_text(SLURM, tmp_path, text)["nodes"]
    assert told(rows, *SEEN) == NODES
    assert rows["partitions"].to_list() == ['["gpu"]'] * 3 + ['["gpu", "debug"]']
    assert json.loads(rows["labels"][0]) == {"features": "nvlink"}
    assert rows["at_ns"].null_count() == 4


def node_json(state: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": "n1", "architecture": "x86_64", "cpu_binding": 0, "gres": "gpu:h100:4(S:0-1)", "state": state,
        "gres_used": "gpu:h100:2(IDX:0-1)", "partitions": ["gpu"], "reason": "", "tres_used": "cpu=1",
        "last_busy": 1767571200, "tres": "cpu=16,gres/gpu=4", "slurmd_start_time": 1,
    } | more  # fmt: skip


@pytest.mark.parametrize(
    "node",
    [
        node_json("mixed", state_flags=["DRAIN"], reason="x"),
        node_json(
            ["MIXED", "DRAIN"], reason="x", last_busy={"set": True, "infinite": False, "number": 1767571200}
        ),
    ],
)
def test_nodes_as_json(tmp_path: Path, node: dict[str, Any]) -> None:
    document = {"nodes": [node], "last_update": 1767571300, "meta": {"Slurm": {"release": "23.02"}}}
    found = read_text(SLURM, tmp_path, json.dumps(document))
    assert told(found["nodes"], *SEEN) == [("n1", 4, "h100", "draining", "x", 2, at(0))]
    assert told(found["sources"], "as_of_ns", "format_version") == [(at(100), "Slurm 23.02")]


def test_sinfo(tmp_path: Path) -> None:
    group = {
        "node": {"state": ["IDLE", "DRAIN"]}, "nodes": {"nodes": ["n1", "n2"]}, "cluster": "",
        "gres": {"total": "gpu:h100:4", "used": "gpu:h100:0(IDX:N/A)"}, "reason": {"description": "hot"},
    }  # fmt: skip
    groups = [group | {"partition": {"name": name}} for name in ("gpu", "debug")]
    document = {"sinfo": groups, "meta": {"slurm": {"cluster": "tiny", "release": "24.11.5"}}}
    rows = read_text(SLURM, tmp_path, json.dumps(document))["nodes"]
    assert told(rows, "cluster", "node", "chips", "state", "reason", "chips_allocated", "partitions") == [
        ("tiny", node, 4, "drained", "hot", 0, '["gpu", "debug"]') for node in ("n1", "n2")
    ]


def test_partitions(tmp_path: Path) -> None:
    text = "PartitionName=gpu\n   Nodes=n[1-2]\n\nPartitionName=debug\n   Nodes=n2\n"
    rows = read_text(SLURM, tmp_path, text)["nodes"]
    assert told(rows, "node", "partitions") == [("n1", '["gpu"]'), ("n2", '["gpu", "debug"]')]


# ---------------------------------------------------------------------------------------------- configuration


def test_slurm_conf() -> None:
    rows = table("nodes", "slurm.conf")
    assert told(rows, "cluster", "node", "chips", "chip_type", "partitions") == [
        ("tiny", "n1", 4, "h100", '["gpu"]'),
        ("tiny", "n2", 4, "h100", '["gpu"]'),
        ("tiny", "n3", 4, "h100", '["gpu"]'),
        ("tiny", "n4", 4, "h100", '["gpu", "debug"]'),
        ("tiny", "login", 0, None, '["debug"]'),
    ]


def test_sets_of_nodes(tmp_path: Path) -> None:
    text = (
        "ClusterName=c\nSlurmctldHost=h\nNodeName=a[1-2] Feature=x\n"
        "NodeName=b1 Feature=y,z\n"
        "NodeName=f[1-9] Feature=z State=FUTURE\n"
        "NodeSet=s Feature=z\nPartitionName=p Nodes=s\nPartitionName=q Nodes=ALL\n"
    )
    rows = read_text(SLURM, tmp_path, text)["nodes"]
    assert told(rows, "node", "partitions") == [("a1", '["q"]'), ("a2", '["q"]'), ("b1", '["p", "q"]')]


def test_gres_conf() -> None:
    rows = told(table("nodes", "gres.conf"), "node", "chips", "chip_type")
    assert rows == [(f"n{number}", 4, "h100") for number in (1, 2, 3)]


def test_gres_conf_of_a_node_that_is_not_named(tmp_path: Path) -> None:
    assert (
        read_text(SLURM, tmp_path, "AutoDetect=nvml\nName=gpu Type=h100 File=/dev/nvidia[0-3]\n")[
            "nodes"
        ].height
        == 0
    )


# ----------------------------------------------------------------------------------------------------- topology


def test_topology() -> None:
    assert told(table("topology", "topology.conf"), "name", "kind", "level", "parent", "nodes") == [
        ("leaf1", "switch", 0, "spine", '["n1", "n2"]'),
        ("leaf2", "switch", 0, "spine", '["n3", "n4"]'),
        ("spine", "switch", 1, None, '["n1", "n2", "n3", "n4"]'),
    ]


def test_topology_of_scontrol(tmp_path: Path) -> None:
    text = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=a1\nSwitchName=top Level=1 LinkSpeed=1 Nodes=a1 Switches=s1\n"
    rows = read_text(SLURM, tmp_path, text)["topology"]
    assert told(rows, "name", "level", "parent") == [("s1", 0, "top"), ("top", 1, None)]


def test_blocks(tmp_path: Path) -> None:
    rows = read_text(
        SLURM, tmp_path, "# racks\nBlockName=b1 Nodes=a[1-2]\nBlockName=b2 Nodes=a[3-4]\nBlockSizes=2\n"
    )
    assert told(rows["topology"], "name", "kind", "nodes") == [
        ("b1", "block", '["a1", "a2"]'),
        ("b2", "block", '["a3", "a4"]'),
    ]


YAML = """\
---
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: a[1-2]
      - switch: s2
        nodes: a[3-4]
- topology: racks
  block:
    block_sizes:
      - 2
    blocks:
      - block: b1
        nodes: a[1-2]
"""


def test_topology_yaml(tmp_path: Path) -> None:
    rows = read_text(SLURM, tmp_path, YAML)["topology"]
    assert told(rows, "name", "kind", "level", "parent", "nodes") == [
        ("root", "switch", 1, None, '["a1", "a2", "a3", "a4"]'),
        ("s1", "switch", 0, "root", '["a1", "a2"]'),
        ("s2", "switch", 0, "root", '["a3", "a4"]'),
        ("b1", "block", 0, None, '["a1", "a2"]'),
    ]


def test_switches_in_a_circle(tmp_path: Path) -> None:
    text = (
        "SwitchName=a Switches=b\nSwitchName=b Switches=a,c\nSwitchName=c Nodes=n1\nSwitchName=d Switches=x\n"
    )
    rows = read_text(SLURM, tmp_path, text)["topology"]
    assert told(rows, "name", "level", "nodes") == [
        ("a", 0, '["n1"]'),
        ("b", 0, '["n1"]'),
        ("c", 0, '["n1"]'),
        ("d", 0, "[]"),
    ]


def test_many_ways_down(tmp_path: Path) -> None:
    """Forty levels, each twice in the next: a tree of as many paths as there are could not be walked."""
    lines = ["SwitchName=s0 Nodes=n1", *(f"SwitchName=s{n + 1} Switches=s{n},s{n}" for n in range(40))]
    rows = read_text(SLURM, tmp_path, "\n".join(lines))["topology"]
    assert rows.row(-1, named=True)["level"] == 40
    assert rows["nodes"].to_list() == ['["n1"]'] * 41


# -------------------------------------------------------------------------------------------------------- the log


def test_log() -> None:
    found = read(SLURM, FIXTURES / "slurmctld.log")
    assert told(found["scheduler_events"], "ts_ns", "event", "raw_id", "other", "nodes", "reason") == [
        (at(400.1), "submit", "6", None, None, None),
        (at(400.2), "allocate", "6", None, '["n4"]', None),
        (at(660.25), "allocate", "2", None, '["n3"]', None),
        (at(1000.3), "preempt", "6", "7", None, "requeued"),
        (at(1000.31), "requeue", "6", None, None, None),
        (at(1000.4), "allocate", "7", None, '["n4"]', None),
        (at(1900.5), "end", "7", None, None, None),
        (at(2000.6), "requeue", "10", None, '["n3"]', "node_failure"),
        (at(2000.61), "node_down", None, None, '["n3"]', "not responding"),
        (at(2120.7), "node_up", None, None, '["n3"]', None),
        (at(2800.8), "leak", "10", None, '["n3"]', None),
        (at(5000.9), "resize", "12", None, '["n3"]', None),
        (at(6000), "node_drain", None, None, '["n2"]', "xid 79"),
    ]
    assert set(found["scheduler_events"]["cluster"]) == {"tiny"}
    assert notices(found) == [("bad_row", 1)]
    assert told(found["sources"], "as_of_ns", "naive_time", "format_version") == [
        (at(6600), True, "Slurm 24.11.5")
    ]


STAMP = "[2026-01-05T00:00:01.500]"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("sched: Allocate JobId=3+1(4) NodeList=n[1-2] #CPUs=2 Partition=p", ("allocate", "4", '["n1", "n2"]', None)),
        ("backfill: Started JobId=2_3(25) in p on n1", ("allocate", "25", '["n1"]', None)),
        ("sched: _slurm_rpc_allocate_resources JobId=8 NodeList=n1 usec=10", ("allocate", "8", '["n1"]', None)),
        ("sched: _slurm_rpc_allocate_resources JobId=8 NodeList=(null) usec=10", ("submit", "8", None, None)),
        ("_slurm_rpc_submit_batch_het_job: JobId=3 usec=663", ("submit", "3", None, None)),
        ("preempted JobId=4 has been suspended by gang for JobId=5", None),
        (
            "preempted JobId=4 has been checkpointed to reclaim resources for JobId=5",
            ("preempt", "4", None, "checkpointed"),
        ),
        ("slurm_job_preempt: preempted JobId=7 had to be killed", ("preempt", "7", None, "killed")),
        ("_job_complete: requeue JobId=70 due to node failure", ("requeue", "70", None, "node_failure")),
        (
            "Batch JobId=70 missing from batch node h1 (not found BatchStartTime after startup), Requeuing job",
            ("requeue", "70", '["h1"]', "node_failure"),
        ),
        ("Killing JobId=33 on failed node a4", ("node_failure", "33", '["a4"]', "node_failure")),
        ("job_signal: 9 of running JobId=7 successful 0x8004", ("end", "7", None, "killed")),
        ("job_signal: 15 of running JobId=7 successful 0x8004", None),
        ("Time limit exhausted for JobId=5", ("end", "5", None, "time_limit")),
        ("sched: _release_job_rec: release hold on JobId=16 by uid 0", ("release", "16", None, None)),
        ("sched: _hold_job_rec: hold on JobId=16 by uid 0", ("hold", "16", None, None)),
        ("sched: _update_job: set node count to 1 for JobId=37", ("resize", "37", None, "1")),
        ("_slurm_rpc_suspend(suspend) for 9", ("suspend", "9", None, None)),
        ("_slurm_rpc_suspend(suspend) for 9 Job is pending execution", None),
        ("_slurm_rpc_suspend(resume) for JobId=9 usec=3", ("resume", "9", None, None)),
        ("error: Nodes h[2-3] not responding, setting DOWN", ("node_down", None, '["h2", "h3"]', "not responding")),
        (
            "error: Setting node n1 state to DRAIN with reason:gres/gpu count too low",
            ("node_drain", None, '["n1"]', "gres/gpu count too low"),
        ),
        ("Node h4 now responding", ("node_up", None, '["h4"]', None)),
        ("update_node: node h4 state set to IDLE", ("node_up", None, '["h4"]', None)),
        ("update_node: node h4 state set to DOWN", ("node_down", None, '["h4"]', None)),
        (
            "sched/backfill: _start_job: Failed to start JobId=124 with a[1-2] avail: Requested nodes are busy",
            ("failed_scheduling", "124", '["a1", "a2"]', "Requested nodes are busy"),
        ),
    ],
)  # fmt: skip
def test_lines(tmp_path: Path, line: str, wanted: tuple[Any, ...] | None) -> None:
    text = f"{STAMP} slurmctld version 23.02.1 started on cluster c\n{STAMP} {line}\n"
    rows = read_text(SLURM, tmp_path, text)["scheduler_events"]
    assert told(rows, "event", "raw_id", "nodes", "reason") == ([wanted] if wanted else [])
    assert set(rows["ts_ns"]) <= {at(1.5)}


@pytest.mark.parametrize(
    ("stamp", "tz", "second", "naive"),
    [
        ("[2026-01-05T00:00:01]", "", 1, True),
        ("[2026-01-05T00:00:01.500]", "Europe/Berlin", -3598.5, True),
        ("[2026-01-05T01:00:01.500+01:00]", "", 1.5, False),
        ("2026-01-05T01:00:01.500123+01:00 head slurmctld[71]:", "", 1.500123, False),
        ("2026-01-05T00:00:01+0000 head slurmctld[71]:", "", 1, False),
    ],
)
def test_stamps(tmp_path: Path, stamp: str, tz: str, second: float, naive: bool) -> None:
    text = f"{stamp} sched: Allocate JobId=1 NodeList=n1 #CPUs=1 Partition=p\n"
    options: dict[str, Any] = {"tz": tz}
    found = read_text(SLURM, tmp_path, text, **options)
    assert found["scheduler_events"]["ts_ns"][0] == round((make.MIDNIGHT + second) * 1_000_000) * 1000
    assert found["scheduler_events"]["message"][0].startswith("sched: Allocate")
    assert found["sources"]["naive_time"][0] == naive


# ------------------------------------------------------------------------------------------------------ the queue


def test_jobs_of_the_controller() -> None:
    found = read(SLURM, FIXTURES / "scontrol_show_job.txt")
    running, waiting = found["attempts"].to_dicts()
    assert (running["state"], running["start_ns"], running["end_ns"]) == ("RUNNING", at(5400), None)
    assert (running["run_ns"], running["chips"], running["chips_by_node"]) == (1800 * SECOND, 4, '{"n4": 4}')
    assert (waiting["state"], waiting["start_ns"], waiting["end_ns"]) == ("PENDING", None, None)
    assert (waiting["name"], waiting["user"], waiting["restarts"]) == ("big job", "bob", 2)
    assert (waiting["chips"], waiting["chips_requested"], waiting["node_count"]) == (0, 16, 4)
    assert (waiting["switches"], waiting["switches_wait_ns"]) == (1, 600 * SECOND)
    assert json.loads(waiting["labels"]) == {"model": "big", "team": "cv"}
    assert told(found["pending"], "raw_id", "start_ns", "end_ns", "reason") == [
        ("14", at(7200), None, "Resources")
    ]
    assert found["sources"]["as_of_ns"][0] == at(7200)


def test_jobs_one_to_a_line(tmp_path: Path) -> None:
    text = "\n".join(" ".join(record.split("\n")) for record in texts.QUEUE.split("\n\n"))
    wanted = read(SLURM, FIXTURES / "scontrol_show_job.txt")["attempts"].drop("line")
    assert read_text(SLURM, tmp_path, text)["attempts"].drop("line").equals(wanted)


def test_tres_of_old_versions(tmp_path: Path) -> None:
    """One column for what is asked for, and then for what is allocated; and chips that only the request names."""
    head = "UserId=a(1) JobState={} StartTime={} SubmitTime=1767571200 NumNodes=2 TRES=cpu=1,node=2"
    text = "".join(
        f"JobId={number} JobName=x {head.format(state, start)} TresPerNode=gres:gpu:a100:4\n"
        for number, (state, start) in enumerate([("RUNNING", "1767571210"), ("PENDING", "Unknown")])
    )
    rows = read_text(SLURM, tmp_path, text)["attempts"]
    assert told(rows, "chips", "chips_requested", "chip_type") == [(8, 8, "a100"), (0, 8, "a100")]


def test_ids_of_arrays_and_parts(tmp_path: Path) -> None:
    lines = [
        "JobId=26 ArrayJobId=2 ArrayTaskId=4 JobName=x JobState=RUNNING",
        "JobId=2 ArrayJobId=2 ArrayTaskId=5-6%2 JobName=x JobState=PENDING",
        "JobId=4 HetJobId=3 HetJobOffset=1 JobName=x JobState=RUNNING",
    ]
    rows = read_text(SLURM, tmp_path, "\n".join(lines))["attempts"]
    assert told(rows, "raw_id", "job", "array", "holds") == [
        ("26", "2_4", "2", None),
        ("2", "2_[5-6%2]", "2", '["array_limit"]'),
        ("4", "3", None, None),
    ]


def test_squeue_json() -> None:
    found = read(SLURM, FIXTURES / "squeue.json")
    names = ("raw_id", "state", "start_ns", "end_ns", "chips", "chips_requested", "chips_by_node", "cluster")
    assert told(found["attempts"], *names) == [
        ("13", "RUNNING", at(5400), None, 4, 4, '{"n4": 4}', "tiny"),
        ("14", "PENDING", None, None, 0, 16, None, "tiny"),
    ]
    assert told(found["pending"], "raw_id", "start_ns", "reason") == [("14", at(7200), "Resources")]
    assert found["sources"]["as_of_ns"][0] == at(7200)


def test_squeue_with_a_delimiter(tmp_path: Path) -> None:
    text = (
        "JOBID|STATE|SUBMIT_TIME|START_TIME|TIME|TIME_LIMIT|NODES|NODELIST(REASON)|TRES_PER_NODE|NAME\n"
        "7|RUNNING|2026-01-05T00:00:00|2026-01-05T00:01:00|1:00|UNLIMITED|2|n[1-2]|gres/gpu:h100:4|a|b\n"
        "8|PENDING|2026-01-05T00:00:30|N/A|0:00|1:00:00|1|(Priority)|gres/gpu:1|x\n"
    )
    found = read_text(SLURM, tmp_path, text)
    names = ("raw_id", "name", "state", "start_ns", "chips", "chips_requested", "nodes", "reason", "limit_ns")
    assert told(found["attempts"], *names) == [
        ("7", "a|b", "RUNNING", at(60), None, 8, '["n1", "n2"]', None, None),
        ("8", "x", "PENDING", None, 0, 1, None, "Priority", 3600 * SECOND),
    ]
    assert told(found["pending"], "raw_id", "start_ns", "reason") == [("8", at(120), "Priority")]


ALIGNED = """\
JOBID               STATE               SUBMIT_TIME         NODELIST            REASON
7                   RUNNING             2026-01-05T00:00:00 n1                  None
8                   PENDING             2026-01-05T00:00:30                     Resources
9                   PENDING             2026-01-05T00:00:30-too-long            Resources
"""
DEFAULT = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                 7       gpu    train    alice  R       1:00      1 n1
           2_[5-6]       gpu    train    alice PD       0:00      1 (ReqNodeNotAvail, May be reserved)
"""


def test_squeue_in_columns(tmp_path: Path) -> None:
    found = read_text(SLURM, tmp_path, ALIGNED)
    assert told(found["attempts"], "raw_id", "state", "submit_ns", "nodes") == [
        ("7", "RUNNING", at(0), '["n1"]'),
        ("8", "PENDING", at(30), None),
    ]
    assert notices(found) == [("bad_row", 1)]
    found = read_text(SLURM, tmp_path, DEFAULT)
    assert told(found["attempts"], "job", "state", "nodes", "reason") == [
        ("7", "RUNNING", '["n1"]', None),
        ("2_[5-6]", "PENDING", None, "ReqNodeNotAvail, May be reserved"),
    ]


# ------------------------------------------------------------------------------------------------------- roll-ups


def test_sreport() -> None:
    rows = table("rollups", "sreport.psv")
    assert {row["measure"]: row["seconds"] for row in rows} == {
        "allocated": 60_000, "down": 480, "planned_down": 0, "idle": 54_720, "planned": 0, "reported": 115_200,
    }  # fmt: skip
    assert told(rows[:1], "cluster", "resource", "account", "start_ns", "end_ns") == [
        ("tiny", "gres/gpu", None, at(0), at(7200))
    ]


USERS = """\
--------------------------------------------------------------------------------
Cluster/Account/User Utilization 2026-01-05T00:00:00 - 2026-01-05T23:59:59 (86400 secs)
Usage reported in {unit}
--------------------------------------------------------------------------------
Cluster|Account|Login|Proper Name|TRES Name|Used
tiny|lab|||gres/gpu|60
tiny|lab|bob|Bob|gres/gpu|20
"""


@pytest.mark.parametrize(("unit", "factor"), [("TRES Seconds", 1), ("TRES Minutes", 60), ("CPU Hours", 3600)])
def test_use_by_user(tmp_path: Path, unit: str, factor: int) -> None:
    rows = read_text(SLURM, tmp_path, USERS.format(unit=unit))["rollups"]
    assert told(rows, "account", "user", "measure", "seconds", "end_ns") == [
        ("lab", None, "used", 60 * factor, at(86_400)),
        ("lab", "bob", "used", 20 * factor, at(86_400)),
    ]


def test_a_column_that_comes_twice(tmp_path: Path) -> None:
    """24.11 prints Planned for PLND Down, too, with the figure of Planned."""
    text = texts.SREPORT.replace("PLND Down", "Planned").replace("|480|0|54720|0|", "|480|7|54713|7|")
    rows = read_text(SLURM, tmp_path, text)["rollups"]
    assert [row["seconds"] for row in rows.to_dicts() if row["measure"] == "planned"] == [7]
    assert "planned_down" not in rows["measure"]


def test_a_report_without_delimiters(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without delimiters") as caught:
        read_text(SLURM, tmp_path, texts.SREPORT.replace("|", "  "))
    assert "sreport -P -t Seconds" in caught.value.hint
