import re

import pytest

from mpg_cli.goodput.idle import IdleRules
from mpg_cli.goodput.taxonomy import KILLERS, LAYERS, load_taxonomy

TAXONOMY = load_taxonomy()
SCHEDULING = (
    "no_demand shortage fragmentation topology policy idle_unexplained partial topology_violated suspended down "
    "drained leaked"
)
RUNTIME = (
    "init compile restore input checkpoint evaluation lost_work restart hang slow_step communication_wait "
    "communication memory_copy allocator synchronisation launch_bound host_code dependency kernel_gap "
    "profiler_overhead transient unclassified_busy unobserved unknown"
)
PROGRAM = "productive ideal memory_bound kernel_inefficiency recompute padding unmodelled"


@pytest.mark.parametrize(("layer", "ids"), list(zip(LAYERS, (SCHEDULING, RUNTIME, PROGRAM), strict=True)))
def test_the_causes_are_those_of_the_design(layer, ids):
    assert [cause.id for cause in TAXONOMY.causes.values() if cause.layer == layer] == ids.split()


@pytest.mark.parametrize("cause", list(TAXONOMY.causes.values()), ids=list(TAXONOMY.causes))
def test_every_cause_is_fully_described(cause):
    assert cause.layer in LAYERS
    assert cause.killer in KILLERS
    assert 0 < len(cause.label) <= 28, "a label must fit into a row of a report"
    assert cause.label[0].islower()
    assert cause.meaning.endswith(".")
    assert cause.look_at.endswith(".")
    assert cause.measured.endswith(".")
    assert 1 <= len(re.findall(r"\.(?: |$)", cause.measured)) <= 3
    assert cause.owner
    assert all(fix and not fix.endswith(".") for fix in cause.fixes)
    assert cause.fixes or cause.id == "ideal"


def test_what_is_not_measured_says_so():
    unmeasured = [
        cause for cause in TAXONOMY.causes.values() if cause.measured.startswith("Not measured yet")
    ]
    logs = "init evaluation lost_work restart hang slow_step"
    assert [cause.id for cause in unmeasured] == logs.split()
    assert all("does not read so far" in cause.measured for cause in unmeasured)


@pytest.mark.parametrize(
    ("cause", "limits"),
    [
        ("kernel_gap", ("kernel_gap_ns", "unlinked_gap_ns")),
        ("dependency", ("dependency_ns",)),
        ("launch_bound", ("launch_latency_ns",)),
        ("host_code", ("long_self_ns", "quiet_op_ns")),
        ("compile", ("long_call_ns",)),
        ("synchronisation", ("long_self_ns",)),
        ("transient", ("unlinked_gap_ns",)),
        ("unknown", ("kernel_gap_ns", "dependency_ns", "launch_latency_ns", "unlinked_gap_ns")),
    ],
)
def test_the_limits_named_are_those_in_force(cause, limits):
    """Every limit that a description names has the value of rules.toml."""
    in_force = IdleRules.load().limits
    text = TAXONOMY.cause(cause).measured.replace("(40, 100 and 100 µs)", "(40 µs, 100 µs and 100 µs)")
    named = [int(n) * {"µs": 1_000, "ms": 1_000_000}[unit] for n, unit in re.findall(r"(\d+) (µs|ms)", text)]
    assert {getattr(in_force, limit) for limit in limits} <= set(named)


def test_labels_are_distinct():
    assert len({cause.label for cause in TAXONOMY.causes.values()}) == len(TAXONOMY.causes)


def test_views_name_known_causes_and_layers():
    assert set(TAXONOMY.views) == {"default", "fleet-paper"}
    for moved in TAXONOMY.views.values():
        assert set(moved) <= set(TAXONOMY.causes)
        assert set(moved.values()) <= set(LAYERS)


@pytest.mark.parametrize(
    ("cause", "view", "layer"),
    [
        ("communication", "default", "runtime"),
        ("communication_wait", "default", "runtime"),
        ("communication", "fleet-paper", "program"),
        ("communication_wait", "fleet-paper", "program"),
        ("input", "fleet-paper", "runtime"),
        ("ideal", "fleet-paper", "program"),
    ],
)
def test_a_view_moves_only_exposed_communication(cause, view, layer):
    assert TAXONOMY.layer(cause, view) == layer


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (
            lambda: TAXONOMY.cause("fragmentatoin"),
            "unknown cause 'fragmentatoin'; did you mean 'fragmentation'?",
        ),
        (lambda: TAXONOMY.layer("comunication", "fleet-paper"), "did you mean 'communication'?"),
        (
            lambda: TAXONOMY.layer("input", "fleet_paper"),
            "unknown view 'fleet_paper'; did you mean 'fleet-paper'?",
        ),
        (lambda: TAXONOMY.cause("zzz"), "unknown cause 'zzz'; known: no_demand, shortage"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(look_up, message):
    with pytest.raises(KeyError) as error:
        look_up()
    assert message in error.value.args[0]


def test_it_is_read_once():
    assert load_taxonomy() is TAXONOMY
