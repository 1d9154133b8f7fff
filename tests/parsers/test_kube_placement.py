"""topologyAssignment of Kueue: both versions say the same, and what contradicts itself says nothing."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_parsers.kube.placement import HOSTNAME, read_placement

RACKS = ("topology-block", "topology-rack")
Domains = list[tuple[tuple[str, ...], int]]


def listed(levels: tuple[str, ...], domains: Domains) -> dict[str, Any]:
    """v1beta1."""
    told = [{"values": list(values), "count": count} for values, count in domains]
    return {"levels": list(levels), "domains": told}


def compressed(levels: tuple[str, ...], domains: Domains, *, size: int, flat: bool) -> dict[str, Any]:
    """v1beta2, in slices of `size` domains; `flat` as Kueue 0.15 wrote it."""
    slices = []
    for at in range(0, len(domains), size):
        part = domains[at : at + size]
        counts = [count for _, count in part]
        values = [_level([names[level] for names, _ in part], flat=flat) for level in range(len(levels))]
        told: dict[str, Any] = {"domainCount": len(part), "valuesPerLevel": values}
        same = len(set(counts)) == 1
        if flat:
            told |= {"universalPodCount": counts[0]} if same else {"podCounts": counts}
        else:
            told["podCounts"] = {"universal": counts[0]} if same else {"individual": counts}
        slices.append(told)
    return {"levels": list(levels), "slices": slices}


def _level(names: list[str], *, flat: bool) -> dict[str, Any]:
    if len(set(names)) == 1:
        return {"universalValue" if flat else "universal": names[0]}
    prefix = _common(names)
    rest = [name.removeprefix(prefix) for name in names]
    suffix = _common([name[::-1] for name in rest])[::-1]
    each: dict[str, Any] = {"roots": [name.removesuffix(suffix) for name in rest]}
    each |= {"prefix": prefix} if prefix else {}
    each |= {"suffix": suffix} if suffix else {}
    return each if flat else {"individual": each}


def _common(names: list[str]) -> str:
    """The prefix that all share."""
    return "".join(
        chars[0] for chars in takewhile(lambda chars: len(set(chars)) == 1, zip(*names, strict=False))
    )


NAMES = st.text(alphabet="ab-1", max_size=4)
DOMAINS = st.integers(1, 3).flatmap(
    lambda levels: st.lists(
        st.tuples(st.tuples(*[NAMES] * levels), st.integers(1, 3)),
        min_size=1,
        max_size=9,
        unique_by=lambda d: d[0],
    )
)


@given(DOMAINS, st.integers(1, 9), st.booleans())
def test_both_versions_say_the_same(domains: Domains, size: int, flat: bool) -> None:
    levels = tuple(f"level-{at}" for at in range(len(domains[0][0])))
    old = read_placement(listed(levels, domains))
    assert old is not None
    assert old.pods == dict(domains)
    assert read_placement(compressed(levels, domains, size=size, flat=flat)) == old


def test_the_example_of_the_documentation() -> None:
    values = [{"universal": "block-1"}, {"individual": {"prefix": "rack-", "roots": ["1", "2"]}}]
    part = {"domainCount": 2, "valuesPerLevel": values, "podCounts": {"individual": [4, 2]}}
    found = read_placement({"levels": list(RACKS), "slices": [part]})
    assert found is not None
    assert found.pods == {("block-1", "rack-1"): 4, ("block-1", "rack-2"): 2}
    assert (found.shares("topology-block"), found.shares("topology-rack")) == (True, False)
    assert (found.shares(HOSTNAME), found.by_node()) == (None, None)


def test_racks_of_one_name_in_two_blocks_are_two() -> None:
    found = read_placement(listed(RACKS, [(("b1", "r"), 1), (("b2", "r"), 1)]))
    assert found is not None
    assert found.shares("topology-rack") is False


def test_hosts() -> None:
    found = read_placement(listed((HOSTNAME,), [(("n1",), 2), (("n2",), 1)]))
    assert found is not None
    assert found.by_node() == {"n1": 2, "n2": 1}


ONE = {"universal": "x"}


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"domainCount": 0, "valuesPerLevel": [ONE], "podCounts": {"universal": 1}},
        {"domainCount": 1 << 40, "valuesPerLevel": [ONE], "podCounts": {"universal": 1}},
        {"domainCount": 1, "valuesPerLevel": [ONE, ONE], "podCounts": {"universal": 1}},
        {
            "domainCount": 2,
            "valuesPerLevel": [{"individual": {"roots": ["1"]}}],
            "podCounts": {"universal": 1},
        },
        {"domainCount": 1, "valuesPerLevel": [{"individual": {"roots": [7]}}], "podCounts": {"universal": 1}},
        {"domainCount": 1, "valuesPerLevel": [ONE]},
        {"domainCount": 1, "valuesPerLevel": [ONE], "podCounts": {"individual": [1, 2]}},
        {"domainCount": 1, "valuesPerLevel": [ONE], "podCounts": {"individual": [True]}},
    ],
)
def test_contradictions(part: dict[str, Any]) -> None:
    assert read_placement({"levels": ["rack"], "slices": [part]}) is None
