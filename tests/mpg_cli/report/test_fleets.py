"""What a reader sees of a fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mpg_cli.report.model import Ending, Fragmentation, Integrity, Ratio, Reconciled
from mpg_cli.report.sections import build
from tests.mpg_cli.report import fleets, reports
from tests.mpg_cli.report.parts import cells, facts, headers, lines, section, tables, titles

if TYPE_CHECKING:
    from mpg_cli.report.model import Report, Scheduling

RECORDS = "What to know about the records"
KNOWN = "What is known of the fleet"
WAITS = "Why jobs waited"
ENDINGS = "How attempts ended"
PARTS = "SG in parts"
ROLL_UP = "Beside the scheduler's own roll-up"
JOBS = "Jobs that"
NEXT = "To know more next time"


def told(report: Report) -> Scheduling:
    assert report.scheduling is not None
    return report.scheduling


def first(report: Report) -> list[str]:
    return lines(build(report)[0])


def verdict(report: Report) -> dict[str, str]:
    return dict(facts(build(report)[1]))


# ---------------------------------------------------------------------------------------- the first lines


def test_header() -> None:
    assert first(fleets.slurm()) == [
        "mpg 0.1.0 · 3 files in logs/ · Slurm · cluster alpha · 64 chips",
        "window: 2026-11-29T14:00:00Z to 2026-11-29T15:00:00Z · 1 h · 64.00 chip-h in all",
    ]


def test_header_without_capacity() -> None:
    assert first(fleets.no_capacity()) == [
        "mpg 0.1.0 · logs/sacct.psv · Slurm",
        "window: 2026-11-29T14:00:00 to 2026-11-29T15:00:00 · 1 h · capacity not known; 41.00 chip-h held by jobs",
    ]


def test_header_beside_traces() -> None:
    read, window, fleet = first(fleets.mixed())
    assert "2 × NVIDIA H100" in read
    assert window.startswith("window: step 12 ·")
    assert fleet.startswith(
        "fleet: cluster alpha · 64 chips · 2026-11-29T14:00:00Z to 2026-11-29T15:00:00Z · 1 h"
    )


def test_verdict() -> None:
    found = verdict(fleets.slurm())
    assert list(found) == [
        "SG 62.5 %", "RG, PG, MPG —", "largest loss", "jobs", "waiting", "records", "trust",
    ]  # fmt: skip
    assert found["SG 62.5 %"].startswith("40.00 of 64.00 chip-h allocated as asked · fleet capacity")
    assert found["RG, PG, MPG —"] == fleets.NOT_RUNTIME
    loss = "idle, no demand: 12.00 chip-h, 18.8 %; then idle, too few chips free: 6.00 chip-h, 9.4 %"
    assert found["largest loss"] == loss
    ended = "8.00 chip-h, 20.0 % of it, in attempts that did not finish (PREEMPTED 15.0 %, NODE_FAIL 5.0 %)"
    assert found["jobs"] == f"20,180 jobs in 20,191 attempts held 41.00 chip-h; {ended}"
    waited = "4.08 chip-h (demand, not capacity); 49.1 % of it: too few chips free"
    assert found["waiting"] == waited
    assert found["records"] == "phantom allocation, 4.00 chip-h at stake; 2 more findings, listed below"


def test_verdict_without_capacity() -> None:
    found = verdict(fleets.no_capacity())
    assert found["SG, MPG —"] == "the capacity is not known: give 'sacctmgr show event', or --capacity"
    assert "largest loss" not in found
    assert found["jobs' SG 66.7 %"] == (
        "40.00 of 60.00 chip-h between first submission and end; not of the fleet"
    )


def test_verdict_beside_traces_has_both() -> None:
    found = verdict(fleets.mixed())
    assert {"SG 62.5 %", "RG 6.6 %", "device busy", "jobs", "waiting"} <= found.keys()
    assert found["largest loss"].startswith("unexplained")


def test_nothing_lost() -> None:
    base = fleets.slurm()
    report = replace(
        base, ledger=base.ledger[:1], scheduling=replace(told(base), endings=told(base).endings[:1])
    )
    assert verdict(report)["largest loss"] == "none: all chips were allocated as asked"
    assert lines(section(report, ENDINGS)) == ["No chip-time went to attempts that did not finish."]


def test_the_account_calls_allocated_time_so_and_says_where_losses_are() -> None:
    table = tables(section(fleets.slurm(), "Where the chip-time went"))[0]
    assert headers(table) == ["cause", "chip-h", "share %", "remark"]
    assert cells(table) == [
        ["allocated as asked", "40.00", "62.5", ""],
        ["not allocated", "24.00", "37.5", ""],
        ["  idle, no demand", "12.00", "18.8", "75.0 % in a100"],
        ["  idle, too few chips free", "6.00", "9.4", "all in h100"],
        ["  leaked", "4.00", "6.2", "all in h100"],
        ["  down", "2.00", "3.1", ""],
        ["total", "64.00", "100.0", ""],
    ]
    assert table.rows[0].hue == "computing"
    explain = "mpg explain no_demand, mpg explain shortage, mpg explain leaked"
    assert lines(section(fleets.slurm(), "Where the chip-time went")) == [
        f"What each means and what usually helps: {explain}."
    ]


def test_unobserved_keeps_its_label_beside_traces() -> None:
    report = replace(fleets.mixed(), ledger=fleets.ledger())
    assert cells(tables(section(report, "Where the chip-time went"))[0])[0][0] == "not observed"


def test_what_is_about_devices_stays_silent() -> None:
    assert titles(fleets.slurm()) == [
        "", "", "Where the chip-time went", RECORDS, KNOWN, WAITS, ENDINGS, "Preemptions", "Failures of hardware",
        "Fragmentation of the free chips", "SG in parts, most chip-time lost first", ROLL_UP, "Remarks",
        "Jobs that waited for most chip-time", NEXT, "Warnings",
    ]  # fmt: skip
    assert "Where the chip-time went" not in titles(fleets.no_capacity())


def test_trust_is_told_again_only_where_the_verdict_cuts_it() -> None:
    base = fleets.slurm()
    report = replace(base, quality=replace(base.quality, grade_reasons=("a", "b", "c")))
    assert facts(section(report, "How far to trust this")) == [("grade", "B · a · b · c")]


def test_traces_alone_have_none_of_it() -> None:
    mixed, traces = titles(fleets.mixed()), titles(reports.two_ranks())
    assert {RECORDS, KNOWN, WAITS, ENDINGS, ROLL_UP, NEXT} <= set(mixed) - set(traces)
    assert [title for title in mixed if title in traces] == traces


# ---------------------------------------------------------------------------------------------- sections


def test_integrity_has_most_at_stake_first() -> None:
    assert facts(section(fleets.slurm(), RECORDS)) == [
        ("phantom allocation", f"{fleets.PHANTOM} (×2); at stake 4.00 chip-h, 9.8 % of what jobs held"),
        (
            "lost attempts",
            "attempts that only the controller's log has (job 70); at stake 816 chip-s, 0.6 % of what jobs held",
        ),
        (
            "repaired input",
            "a row that contains the delimiter was put together again; how much is at stake is not known",
        ),
    ]


def test_integrity_of_more_than_was_held_has_no_share() -> None:
    found = (Integrity("x", "a", 1, 99 * fleets.H), Integrity("y", "b", 1, 0))
    texts = [text for _, text in facts(section(fleets.changed(integrity=found), RECORDS))]
    assert texts == ["a; at stake 99.00 chip-h", "b; no chip-time at stake"]


def test_integrity_is_bounded() -> None:
    found = tuple(Integrity(f"kind_{i}", "m", 1, i) for i in range(20))
    report = fleets.changed(integrity=found)
    assert len(facts(section(report, RECORDS))) == 8
    assert lines(section(report, RECORDS)) == ["12 more findings."]
    assert len(facts(section(report, RECORDS, detail=True))) == 20


def test_known() -> None:
    assert facts(section(fleets.slurm(), KNOWN)) == [
        ("clusters", "alpha"),
        ("window", "2026-11-29T14:00:00Z to 2026-11-29T15:00:00Z, 1 h"),
        ("as of", "2026-11-29T15:18:09Z; what was not over then counts up to it"),
        ("capacity", "64 chips: 8 nodes listed, for as long as registered"),
        ("jobs", "20,180 jobs, 20,191 attempts; the JSON report lists 10,000 of them"),
        ("held", "41.00 chip-h by attempts, within the window"),
        (
            "outside",
            "1,800 chip-s, 1.2 % of that, on nodes or at times without known capacity: not in the account",
        ),
        ("excess", "1,800 chip-s, 1.2 % of that, beyond the chips that its nodes have: not in the account"),
    ]


def test_known_without_capacity_or_zone() -> None:
    found = dict(facts(section(fleets.no_capacity(), KNOWN)))
    assert found["clusters"] == "the records name none"
    assert found["as of"].endswith("; the records do not say in which zone, --tz does")
    assert found["capacity"] == "not known: give 'sacctmgr show event', or --capacity"


def test_waits_add_up() -> None:
    causes, spread = tables(section(fleets.slurm(), WAITS))
    assert headers(causes) == ["waiting for", "chip-h", "share %", "attempts", "mean wait"]
    assert cells(causes) == [
        ["too few chips free", "2.00", "49.1", "2", "5 min"],
        ["delay after a requeue", "1.08", "26.4", "1", "2 min 1 s"],
        ["fits, others before it", "1.00", "24.5", "13", "54 s"],
        ["not known", "0.00", "0.0", "6", "10 s"],
        ["total", "4.08", "100.0", "", ""],
    ]
    assert cells(spread) == [
        ["S", "150", "8 s", "1 min 16 s", "4 min 28 s", "11 min"],
        ["M", "32", "54 s", "2 min 38 s", "1 h", "2 d 4 h"],
    ]
    assert any(
        "it is demand, and no part of the capacity above" in line
        for line in lines(section(fleets.slurm(), WAITS))
    )


def test_endings() -> None:
    found = section(fleets.slurm(), ENDINGS)
    assert lines(found)[0].startswith(
        "8.00 chip-h, 20.0 % of the chip-time, went to attempts that did not finish."
    )
    assert cells(tables(found)[0]) == [
        ["COMPLETED", "finished", "30.00", "75.0", "129"],
        ["PREEMPTED", "did not finish", "6.00", "15.0", "8"],
        ["NODE_FAIL", "did not finish", "2.00", "5.0", "3"],
        ["RUNNING", "not over", "1.00", "2.5", "2"],
        ["RESIZING", "went on, resized", "1.00", "2.5", "1"],
        ["PENDING", "not over", "0.00", "0.0", "1"],
    ]


def test_preemptions() -> None:
    found = section(fleets.slurm(), "Preemptions")
    second = "Second order, by jobs that had themselves been requeued: 1, 2.00 chip-h."
    assert lines(found) == [f"10 attempts preempted after 6.25 chip-h: at most that was lost. {second}"]
    assert headers(tables(found)[0]) == [
        "preempted by", "chip-h lost at most", "attempts", "order", "jobs preempted",
    ]  # fmt: skip
    assert cells(tables(found)[0]) == [
        ["90", "4.00", "8", "first", "110, 111, 112, 113, 114, 115, 2 more"],
        ["104", "2.00", "1", "second", "102"],
        ["(unknown)", "0.25", "1", "first", "77"],
    ]


def test_preemptions_of_one_order_need_no_column_for_it() -> None:
    report = fleets.changed(preemptions=fleets.SCHEDULING.preemptions[1:])
    assert "order" not in headers(tables(section(report, "Preemptions"))[0])


def test_failures() -> None:
    found = section(fleets.slurm(), "Failures of hardware")
    assert cells(tables(found)[0]) == [
        ["S", "151", "2", "1,590", "795", "220 to 6,566", "89.2", "87.1"],
        ["M", "32", "0", "31.0", "—", "over 8.40", "65.5", "—"],
    ]
    assert lines(found)[-1] == "— in M: no failures: nothing to expect from"


def test_fragmentation() -> None:
    table = tables(section(fleets.slurm(), "Fragmentation"))[0]
    assert cells(table) == [["h100", "32", "4.5", "31.0", "87.5"], ["a100", "32", "5.2", "0.0", "0.0"]]


def test_without_fragmentation_one_sentence_is_enough() -> None:
    report = fleets.changed(
        fragmentation=(Fragmentation("a", 8, 2.5, 0.0, 0.0), Fragmentation("b", 8, 1.5, None, None))
    )
    found = section(report, "Fragmentation")
    assert lines(found) == ["None: the usual jobs could use all free chips, 4.0 on average."]
    assert len(tables(section(report, "Fragmentation", detail=True))) == 1


def test_parts_say_of_what_they_are() -> None:
    found = section(fleets.slurm(), PARTS)
    *headings, note = lines(found)
    assert headings == ["By pool, SG of the fleet's capacity:", "By size, SG of the jobs' own time:"]
    assert "never summed with capacity" in note
    fleet, jobs = tables(found)
    assert cells(fleet) == [
        ["h100", "32.00", "56.2", "idle, too few chips free 18.8 %"],
        ["a100", "32.00", "68.8", "idle, no demand 28.1 %"],
        ["total", "64.00", "62.5", ""],
    ]
    assert headers(jobs) == ["size", "jobs", "chip-h", "SG %", "largest loss"]
    assert cells(jobs) == [
        ["M", "23", "40.00", "62.5", "delay after a requeue 25.0 %"],
        ["S", "105", "20.00", "75.0", "too few chips free 20.0 %"],
        ["total", "", "60.00", "66.7", ""],
    ]


def test_a_division_into_one_part_is_shown_with_detail() -> None:
    assert "By account, SG of the jobs' own time:" in lines(section(fleets.slurm(), PARTS, detail=True))


def test_roll_up_shows_what_differs_or_is_of_all() -> None:
    found = section(fleets.slurm(), ROLL_UP)
    assert lines(found) == [
        "5 figures compared, in seconds of the resource: 2 agree, 3 differ, 1 of them not wholly explained."
    ]
    assert cells(tables(found)[0]) == [
        ["gres/gpu", "Allocated", "all", "28,147", "28,103", "44"],
        ["gres/gpu", "Down", "all", "2,096", "2,096", "0"],
        ["gres/gpu", "Used", "ml / bob", "13,236", "13,192", "44"],
        ["gres/gpu", "Used", "ml / carol", "8,816", "8,826.5", "-10.5"],
    ]
    assert facts(found) == [
        ("Allocated and 1 more", fleets.TWICE),
        ("Used, ml / carol", "not explained"),
    ]
    assert len(tables(section(fleets.slurm(), ROLL_UP, detail=True))[0].rows) == 5


def test_roll_up_that_agrees() -> None:
    report = fleets.changed(reconciled=(Reconciled("gres/gpu", "Used", "ml", "x", 5, 5.0, 0.0, ""),))
    assert lines(section(report, ROLL_UP)) == ["1 figure compared, in seconds of the resource: all agree."]
    assert tables(section(report, ROLL_UP)) == []


def test_remarks_are_sentences() -> None:
    assert lines(section(fleets.slurm(), "Remarks"))[1].startswith("Small and extra-large jobs are near 95 %")


def test_jobs() -> None:
    found = section(fleets.slurm(), JOBS)
    table = tables(found)[0]
    assert headers(table) == [
        "job", "user", "chips", "chip-h waited", "waited", "mostly for", "ran", "SG %", "tries", "state",
    ]  # fmt: skip
    assert cells(table)[:3] == [
        ["101", "alice", "16", "2.67", "10 min", "too few chips free", "30 min", "75.0", "1", "COMPLETED"],
        [
            "102",
            "bob",
            "32",
            "1.08",
            "2 min 1 s",
            "delay after a requeue",
            "20 min",
            "90.8",
            "2",
            "COMPLETED",
        ],
        ["104", "alice", "64", "0.08", "4.5 s", "too few chips free", "1 min 10 s", "94.0", "2", "RUNNING"],
    ]
    assert len(table.rows) == 10
    assert lines(found) == ["20,170 more jobs. The JSON report lists 16, by attempt."]
    assert len(tables(section(fleets.slurm(), JOBS, detail=True))[0].rows) == 15


def test_jobs_without_waits_or_users() -> None:
    jobs = tuple(replace(job, queue_wait_s=None, user=None) for job in fleets.JOBS)
    found = section(replace(fleets.slurm(), jobs=jobs), JOBS)
    assert found.title == "Jobs that held most chip-time"
    assert headers(tables(found)[0])[:4] == ["job", "chips", "chip-h held", "waited"]
    assert cells(tables(found)[0])[0][:4] == ["102", "32", "10.67", "—"]


def test_a_second_kind_of_ending_is_named_if_it_matters() -> None:
    endings = (fleets.SCHEDULING.endings[1], Ending("CANCELLED", 1, 1, 0.0, finished=False))
    assert verdict(fleets.changed(endings=endings))["jobs"].endswith("did not finish (PREEMPTED 100.0 %)")


def test_sg_is_shown_as_the_account_rounds_it() -> None:
    """4.745 h and 11.435 h of 16.18 h: both would round up."""
    amounts = {"unobserved": 4_745, "no_demand": 11_435}
    rows = {cause: (*fleets.LEDGER[cause][:2], n * fleets.H // 1000) for cause, n in amounts.items()}
    base = fleets.slurm()
    sg = Ratio(0.293, rows["unobserved"][2], 16_180 * fleets.H // 1000, "b", 1.0)
    report = replace(base, ledger=fleets.ledger(rows), goodput=replace(base.goodput, sg=sg))
    row = cells(tables(section(report, "Where the chip-time went"))[0])[0]
    assert verdict(report)[f"SG {row[2]} %"].startswith(f"{row[1]} of 16.18 chip-h allocated as asked")
