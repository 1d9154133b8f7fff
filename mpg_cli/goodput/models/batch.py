"""Sums over the requests of a batch, which inference engines write into the name of the range around a step.

    execute_15360_context_15(sq15360sk15360sqsq15728640sqsk15728640)_generation_0(sq0sk0sqsq0sqsk0)
    execute_context_1(888_788544)_generation_0(0)

context are requests in prefill, generation those in decode. The first form has Σq, Σk, Σq² and Σq·k over the
requests, q being a request's new tokens and k all its tokens; the second has Σq and a sum of squares that may
or may not hold k.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SUMS = r"\(sq(\d{1,15})sk(\d{1,15})sqsq(\d{1,18})sqsk(\d{1,18})\)"
FULL = re.compile(rf"execute_\d{{1,15}}_context_\d{{1,9}}{SUMS}_generation_\d{{1,9}}{SUMS}")
ONE_PREFILL = re.compile(r"execute_context_1\((\d{1,9})(?:_\d{1,18})?\)_generation_0\(0(?:_0)?\)")


@dataclass(frozen=True, slots=True)
class Batch:
    """New tokens, all tokens (None: not stated), pairs under a causal mask; unless exact, a lower bound."""

    queries: int
    keys: int | None
    causal_pairs: int
    exact: bool


def parse(annotation: str | None) -> Batch | None:
    """The sums in a range's name; None if it has none.

    A request's pairs are Σ over its new tokens of the tokens up to and with it: q·k − q·(q − 1)/2. A single
    prefill without k has at least k = q.
    """
    if annotation is None:
        return None
    if full := FULL.fullmatch(annotation):
        parts = [tuple(map(int, full.groups()[start : start + 4])) for start in (0, 4)]
        pairs = sum(qk - (qq - q) // 2 for q, _, qq, qk in parts)
        return Batch(sum(part[0] for part in parts), sum(part[1] for part in parts), pairs, exact=True)
    if single := ONE_PREFILL.fullmatch(annotation):
        tokens = int(single[1])
        return Batch(tokens, None, tokens * (tokens + 1) // 2, exact=False)
    return None
