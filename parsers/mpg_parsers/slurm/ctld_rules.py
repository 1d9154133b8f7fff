"""What lines of slurmctld.log say: one rule a kind of line, as data."""

from __future__ import annotations

from dataclasses import dataclass

# JobId=70, JobId=2_3(25), JobId=3+0(3), JobId=2_*, JobId=2_[4-6](2): the id in brackets is the job's own
JOB = r"(?:JobId=)?(?P<job>\d+)(?:_(?:\d+|\*|\[[^\]]*\])|\+\d+)?(?:\((?P<own>\d+)\))?"
OTHER = r"JobId=(?P<other>\d+)(?:_(?:\d+|\*|\[[^\]]*\])|\+\d+)?(?:\((?P<other_own>\d+)\))?"
NODES = r"(?P<nodes>[\w.\[\],-]+)"


@dataclass(frozen=True, slots=True)
class Rule:
    """A line that contains `needle` and matches `pattern` is an `event`; `reason` unless the line names one."""

    event: str
    needle: str
    pattern: str
    reason: str | None = None


# the first that matches counts
RULES = (
    Rule("allocate", "sched: Allocate", rf"sched: Allocate {JOB} NodeList={NODES}"),
    Rule("allocate", "Started JobId=", rf"backfill: .*Started {JOB} in \S+ on {NODES}"),
    Rule(
        "allocate",
        "_slurm_rpc_allocate_resources",
        rf"_slurm_rpc_allocate_resources:? {JOB} NodeList=(?P<nodes>[\w.-][\w.\[\],-]*)",
    ),
    Rule("submit", "_slurm_rpc_allocate_resources", rf"_slurm_rpc_allocate_resources:? {JOB} NodeList="),
    Rule("submit", "_slurm_rpc_submit_batch", rf"_slurm_rpc_submit_batch(?:_het)?_job:? {JOB}\b"),
    Rule(
        "preempt",
        "preempted JobId=",
        rf"preempted {JOB} has been (?P<reason>\w+) (?:to reclaim resources )?(?:for|by) {OTHER}",
    ),
    Rule("preempt", "preempted JobId=", rf"preempted {JOB} had to be (?P<reason>\w+)"),
    Rule("requeue", "due to node failure", rf"requeue {JOB} due to node failure", "node_failure"),
    Rule("requeue", "due to failure", rf"requeue(?: job)? {JOB} due to failure of node {NODES}", "node_failure"),
    Rule("requeue", "Requeuing job", rf"Batch {JOB} missing from batch node {NODES} .*Requeuing job", "node_failure"),
    Rule("requeue", "Requeuing JobId=", rf"Requeuing {JOB}"),
    Rule("node_failure", "on failed node", rf"Killing {JOB} on failed node {NODES}", "node_failure"),
    Rule("node_failure", "cancelled by node failure", rf"{JOB} cancelled by node failure", "node_failure"),
    Rule("end", " done", rf"job_complete: {JOB} done"),
    Rule("end", "of running JobId=", rf"job_signal: (?:9|KILL) of running {JOB} successful", "killed"),
    Rule("end", "of pending JobId=", rf"job_signal: (?:9|KILL) of pending {JOB} successful", "cancelled"),
    Rule("end", "Time limit exhausted", rf"Time limit exhausted for {JOB}", "time_limit"),
    Rule("hold", "hold on JobId=", rf"_hold_job_rec: hold on {JOB}"),
    Rule("release", "release hold on JobId=", rf"release hold on {JOB}"),
    Rule("resize", "set node count to", rf"_update_job: set node count to (?P<reason>\d+) for {JOB}"),
    Rule("resize", "_update_job: set nodes to", rf"_update_job: set nodes to {NODES} for {JOB}"),
    Rule("suspend", "_slurm_rpc_suspend(suspend)", rf"_slurm_rpc_suspend\(suspend\) for {JOB}(?: usec=\d+)?\s*$"),
    Rule("resume", "_slurm_rpc_suspend(resume)", rf"_slurm_rpc_suspend\(resume\) for {JOB}(?: usec=\d+)?\s*$"),
    Rule(
        "failed_scheduling",
        "Failed to start JobId=",
        rf"Failed to start {JOB} with {NODES} avail: (?P<reason>.+?)\s*$",
    ),
    Rule("leak", "bad node_offset", rf"gres/\S+: job {JOB} dealloc of node {NODES} bad node_offset"),
    Rule("leak", "gres count underflow", rf"gres/\S+: job {JOB} .*?node {NODES} .*gres count underflow"),
    Rule("node_silent", "is_node_resp", rf"is_node_resp: node:{NODES} RPC:\S+ : (?P<reason>Communication .*?)\s*$"),
    Rule("node_down", "setting DOWN", rf"[Nn]odes? {NODES} (?P<reason>.*?),? ?setting (?:it )?DOWN"),
    Rule("node_down", "unexpectedly rebooted", rf"[Nn]odes? {NODES} (?P<reason>unexpectedly rebooted)"),
    Rule("node_down", "state set to", rf"node {NODES} state set to DOWN"),
    Rule("node_drain", "state set to", rf"node {NODES} state set to DRAIN(?:ED|ING)?"),
    Rule(
        "node_drain",
        "state to DRAIN",
        rf"[Ss]etting node {NODES} state to DRAIN(?:ED|ING)?(?: with reason:?\s*(?P<reason>.+?))?\s*$",
    ),
    Rule("node_drain", "draining", rf"[Nn]ode {NODES} (?P<reason>.*?),? ?draining"),
    Rule("node_up", "state set to", rf"node {NODES} state set to (?:IDLE|RESUME|UNDRAIN|UP)"),
    Rule("node_up", "returned to service", rf"[Nn]odes? {NODES} returned to service"),
    Rule("node_up", "now responding", rf"[Nn]odes? {NODES} now responding"),
)  # fmt: skip
# what is set apart from the state, in a line of its own
REASON = r"node [\w.\[\],-]+ reason set to: "
STARTED = r"slurmctld version (?P<version>\S+) started on cluster (?P<cluster>\S+)"
NEEDLES = tuple(dict.fromkeys(rule.needle for rule in RULES))
GROUPS = ("job", "own", "other", "other_own", "nodes", "reason")
