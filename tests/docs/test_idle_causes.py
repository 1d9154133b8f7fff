"""docs/metrics.md on idle time: every cause that idle time can get, and the limits that are in force."""

from __future__ import annotations

import re

from mpg_cli.goodput.idle import IdleRules
from tests.docs.markdown import ROOT

TEXT = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("\n## Why the chips were idle\n")[2].partition("\n## ")[0]
DEVICE_SIDE = {"launch_bound", "kernel_gap", "dependency", "transient", "unknown"}
ON_THE_HOST = {"launch_bound", "host_code", "synchronisation", "compile"}


def test_every_cause_is_explained() -> None:
    rules = IdleRules.load()
    causes = DEVICE_SIDE | ON_THE_HOST | {rule.cause for rule in (*rules.ranges, *rules.calls)}
    assert len(causes) >= 12
    assert [cause for cause in sorted(causes) if f"`{cause}`" not in SECTION] == []
    listed = TEXT.partition("\n### Causes\n")[2].partition("<!--")[0]
    assert [cause for cause in sorted(causes) if f"`{cause}`" not in listed] == []


def test_the_limits_are_those_in_force() -> None:
    limits = IdleRules.load().limits
    rows = [
        line.strip("| ").split(" | ")
        for line in SECTION.splitlines()
        if line.startswith("| was") or "has no launch" in line
    ]
    shown = [int(re.findall(r"at most (\d+) µs", row[1])[0]) * 1_000 for row in rows]
    in_force = [limits.launch_latency_ns, limits.kernel_gap_ns, limits.dependency_ns, limits.unlinked_gap_ns]
    assert shown == in_force
    assert limits.long_call_ns == limits.long_self_ns == 1_000_000
    assert "over 1 ms" in SECTION
    assert f"lasts {limits.quiet_op_ns // 1_000} µs and launches nothing" in SECTION
