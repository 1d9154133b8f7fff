"""Whether a ratio of the whole moved against its segments (Simpson's paradox), and how much of its move is the mix.

Source of the paradox: Simpson, J. R. Stat. Soc. B 13 (1951). The decomposition is that of Marshall and Edgeworth
(weights averaged over both sides), which has no residual and is the same read backwards with the signs turned.
Exact: integers in, fractions out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# numerator and denominator of a segment, e.g. allocated and capacity chip-nanoseconds
Ratio = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """What one segment did to the ratio of the whole.

    before, after: its own ratio; None on a side where it has no denominator. The effects are in units of the whole's
    ratio: rate_effect is its own move times its mean weight, mix_effect the move of its weight times how far its mean
    ratio lies from the whole's. A segment on one side only has no move of its own: it is all mix.
    """

    key: str
    before: Fraction | None
    after: Fraction | None
    rate_effect: Fraction
    mix_effect: Fraction

    @property
    def move(self) -> Fraction | None:
        """How far its own ratio moved; None if it is on one side only."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class Comparison:
    """The whole before and after, and its parts: change = rate_effect + mix_effect, exactly.

    paradox: the whole moved and no segment moved with it. opposite: segments that moved the other way; still: those
    that did not move; both in order of key and empty unless there is a paradox.
    """

    before: Fraction
    after: Fraction
    parts: tuple[Part, ...]
    paradox: bool
    opposite: tuple[str, ...]
    still: tuple[str, ...]

    @property
    def change(self) -> Fraction:
        """How far the ratio of the whole moved."""
        return self.after - self.before

    @property
    def rate_effect(self) -> Fraction:
        """How far it would have moved by what the segments did, with their mean weights."""
        return sum((part.rate_effect for part in self.parts), Fraction())

    @property
    def mix_effect(self) -> Fraction:
        """How far it moved because the segments' weights did."""
        return sum((part.mix_effect for part in self.parts), Fraction())


def compare(
    before: Mapping[str, Ratio], after: Mapping[str, Ratio], least: Fraction = Fraction()
) -> Comparison | None:
    """Two periods, or the two halves of one, by segment. None if a side has no denominator at all.

    least: how far the whole must have moved, at least, for a paradox to be worth telling; any move if 0. There is no
    paradox without a segment that has weight on both sides. Raises ValueError for a negative denominator.
    """
    whole = _whole(before), _whole(after)
    if not whole[0][1] or not whole[1][1]:
        return None
    ratios = Fraction(*whole[0]), Fraction(*whole[1])
    centre = (ratios[0] + ratios[1]) / 2
    keys = sorted(before.keys() | after.keys())
    pairs = ((key, before.get(key, (0, 0)), after.get(key, (0, 0))) for key in keys)
    parts = tuple(_part(key, a, b, (whole[0][1], whole[1][1]), centre) for key, a, b in pairs if a[1] or b[1])
    return _judge(ratios, parts, least)


def _whole(side: Mapping[str, Ratio]) -> Ratio:
    if any(denominator < 0 for _, denominator in side.values()):
        raise ValueError("a segment has a negative denominator")
    weighted = [ratio for ratio in side.values() if ratio[1]]
    return sum(numerator for numerator, _ in weighted), sum(denominator for _, denominator in weighted)


def _part(key: str, before: Ratio, after: Ratio, totals: tuple[int, int], centre: Fraction) -> Part:
    """One segment; `totals` are the whole's denominators, `centre` the whole's mean ratio.

    Subtracting the centre changes no sum, as the moves of the weights add up to 0, but it makes a segment's mix effect
    mean something: growing is good only for what is better than the whole.
    """
    old = Fraction(*before) if before[1] else None
    new = Fraction(*after) if after[1] else None
    weights = Fraction(before[1], totals[0]), Fraction(after[1], totals[1])
    known = [ratio for ratio in (old, new) if ratio is not None]
    move = known[-1] - known[0]
    mean = (known[0] + known[-1]) / 2
    return Part(
        key, old, new, move * (weights[0] + weights[1]) / 2, (mean - centre) * (weights[1] - weights[0])
    )


def _judge(ratios: tuple[Fraction, Fraction], parts: tuple[Part, ...], least: Fraction) -> Comparison:
    change = ratios[1] - ratios[0]
    moves = {part.key: part.move for part in parts if part.move is not None}
    paradox = (
        bool(moves) and change != 0 and abs(change) >= least and all(m * change <= 0 for m in moves.values())
    )
    opposite = tuple(key for key, move in moves.items() if paradox and move)
    still = tuple(key for key, move in moves.items() if paradox and not move)
    return Comparison(*ratios, parts, paradox, opposite, still)
