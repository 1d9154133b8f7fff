"""Every rule on host events keeps its promises; the user's rules go first and are checked."""

from __future__ import annotations

import polars as pl
import pytest

from mpg_cli.goodput.idle.rules import IdleRules
from mpg_cli.goodput.taxonomy import load_taxonomy
from mpg_parsers.errors import UsageError

RULES = IdleRules.load()
ALL = [*RULES.ranges, *RULES.calls]
ONES = [(rule, kind, name) for rule in ALL for kind in rule.kinds[:1] for name in rule.examples]
OTHERS = [(rule, name) for rule in ALL for name in rule.excluded]


def takes(rule, name: str) -> bool:
    return bool(pl.select(rule.matches(pl.lit(name))).item())


@pytest.mark.parametrize(("rule", "kind", "name"), ONES, ids=lambda value: getattr(value, "id", value))
def test_a_rule_takes_its_examples(rule, kind, name):
    assert takes(rule, name)
    if rule in RULES.ranges:
        found = RULES.range_of(pl.DataFrame({"kind": [kind], "name": [name]}))
        assert RULES.ranges[found["slot"].item()].cause == rule.cause, (
            "an earlier rule of another cause takes it"
        )


@pytest.mark.parametrize(("rule", "name"), OTHERS, ids=lambda value: getattr(value, "id", value))
def test_a_rule_leaves_what_it_says_it_leaves(rule, name):
    assert not takes(rule, name)


@pytest.mark.parametrize(
    "name",
    [
        "Torch-Compiled Region: 0/0",
        "## Call CompiledFxGraph fp5r5pk7bndvtfx ##",
        "torch/_dynamo/eval_frame.py(791): compile_wrapper",
        "torch/utils/checkpoint.py(1500): recompute_fn",
        "CheckpointFunctionBackward",
        "DistributedDataParallel.forward",
        "ProfilerStep#12",
        "aten::copy_",
        "nn.Module: DataParallel_0",
        "torch/nn/modules/module.py(1779): _call_impl",
        "threading.py(1000): _bootstrap",
    ],
)
def test_what_runs_is_no_input_checkpoint_or_compilation(name):
    kinds = pl.DataFrame({"kind": ["annotation", "op", "python"], "name": [name] * 3})
    assert RULES.range_of(kinds).is_empty()


def test_ids_are_unique_and_causes_known():
    assert len({rule.id for rule in ALL}) == len(ALL)
    causes = load_taxonomy().causes
    assert all(causes[rule.cause].layer == "runtime" for rule in ALL)


def test_rules_of_the_user_go_first():
    own = {"id": "mine", "cause": "evaluation", "pattern": "DataLoader", "kinds": ["annotation"]}
    rules = IdleRules.load([own])
    found = rules.range_of(
        pl.DataFrame({"kind": ["annotation"], "name": ["enumerate(DataLoader)#x.__next__"]})
    )
    assert rules.ranges[found["slot"].item()].cause == "evaluation"


def test_without_kinds_a_rule_is_on_ranges_and_frames():
    rules = IdleRules.load([{"id": "mine", "cause": "input", "pattern": "^fetch$"}])
    names = pl.DataFrame({"kind": ["annotation", "op", "python", "runtime"], "name": ["fetch"] * 4})
    assert rules.range_of(names)["kind"].to_list() == ["annotation", "op", "python"]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"id": "a", "cause": "coffee", "pattern": "x"}, "coffee"),
        ({"id": "a", "cause": "shortage", "pattern": "x"}, "shortage"),
        ({"id": "a", "cause": "input", "pattern": "("}, "bad pattern"),
        ({"id": "a", "cause": "input", "pattern": "x", "not": "("}, "bad pattern"),
        ({"id": "a", "cause": "input"}, "pattern"),
        ({"cause": "input", "pattern": "x"}, "'id'"),
        ({"id": "a", "cause": "input", "pattern": "x", "kinds": ["kernel"]}, "kernel"),
        ({"id": "a", "cause": "input", "pattern": "x", "kinds": "op"}, "kinds"),
    ],
)
def test_a_bad_rule_is_named(entry, says):
    with pytest.raises(UsageError, match="idle rule") as caught:
        IdleRules.load([entry])
    assert says in str(caught.value)
