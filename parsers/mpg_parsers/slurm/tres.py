"""Trackable resources: how many accelerators a TRES, GRES or `tres-per-node` text names."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

# generic resources that are whole accelerators; gpumem, gpuutil, shard and mps are measures or parts of one
ACCELERATORS = ("gpu", "tpu", "npu", "hpu", "xpu", "dcu", "mlu", "gcu", "ipu", "gaudi", "neuron")
_NAME = "|".join(ACCELERATORS)
_TRES = re.compile(rf"(?:^|,)gres/({_NAME})(?::([^=,:]+))?=(\d+)([KMG]?)(?=,|$)", re.IGNORECASE)
# gpu, gpu:4, gpu:h100:4, gres:gpu:h100:4, gres/gpu:h100:4(S:0-1), gpu:h100:2(IDX:0,3)
_GRES = re.compile(
    rf"(?:^|,)(?:gres[:/])?({_NAME})(?:[:=]([A-Za-z_][^:,(=]*|\d+[A-Za-z.][^:,(=]*))?(?:[:=](\d+)([KMG]?))?(?:\([^()]*\))?(?=,|$)",
    re.IGNORECASE,
)
# a text in which some accelerator is counted, as accounting writes it or as its JSON does
SIGN = re.compile(
    rf'gres\\?/(?:{_NAME})(?::[^=,:"]+)?=\d|"gres",\s*"name"\s*:\s*"(?:{_NAME})[:"]'.encode(), re.IGNORECASE
)
WHOLE = re.compile(r"[\w./:-]+=[\d.]+[A-Za-z]?(?:,[\w./:-]+=[\d.]+[A-Za-z]?)*", re.ASCII)
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
LARGEST = 1 << 40


@dataclass(frozen=True, slots=True)
class Chips:
    """Accelerators: `total`, and those whose type is told, by type."""

    total: int = 0
    by_type: dict[str, int] = field(default_factory=dict)

    @property
    def type(self) -> str | None:
        """The type of all of them; None where there are several or it is not told."""
        return next(iter(self.by_type)) if len(self.by_type) == 1 else None

    def as_json(self) -> str | None:
        """by_type as a JSON object; None where no type is told."""
        return json.dumps(self.by_type) if self.by_type else None

    def times(self, nodes: int) -> Chips:
        """As many on each of `nodes` nodes."""
        return Chips(self.total * nodes, {name: count * nodes for name, count in self.by_type.items()})


@lru_cache(maxsize=8192)
def from_tres(text: str) -> Chips:
    """Accelerators of e.g. cpu=1,gres/gpu:h100=8,gres/gpu=8: the untyped sum, of typed ones only if there is none."""
    found = [(match[1], match[2], _count(match[3], match[4])) for match in _TRES.finditer(text)]
    return _summed(found, both=True)


@lru_cache(maxsize=8192)
def from_gres(text: str) -> Chips:
    """Accelerators of e.g. gpu:h100:8(S:0-1),gpu:a100:2 or gres/gpu:4; a bare name is one."""
    named = _GRES.finditer(_outside(text))
    found = [(match[1], match[2], _count(match[3] or "1", match[4] or "")) for match in named]
    return _summed(found, both=False)


def is_tres(text: str) -> bool:
    """Whether the text is a list of resources and counts."""
    return not text or WHOLE.fullmatch(text) is not None


def _outside(text: str) -> str:
    """Without what stands in parentheses, where commas separate indices."""
    return re.sub(r"\([^()]*\)", "", text)


def _count(digits: str, scale: str) -> int:
    return min(int(digits[:19]) * _SCALE[scale.lower()], LARGEST)


def _summed(found: list[tuple[str, str | None, int]], *, both: bool) -> Chips:
    """Of (resource, type, count). `both`: typed counts repeat those without a type."""
    by_type: Counter[str] = Counter()
    typed: Counter[str] = Counter()
    untyped: Counter[str] = Counter()
    for resource, name, count in found:
        if name is None:
            untyped[resource] += count
        elif count:
            typed[resource] += count
            by_type[name] += count
    total = untyped.total() + sum(n for resource, n in typed.items() if not both or not untyped[resource])
    return Chips(total, dict(by_type))
