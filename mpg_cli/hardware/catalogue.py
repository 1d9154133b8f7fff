"""Which chip a trace means: by the name it reports, else by compute capability, units and memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mpg_cli.hardware.entries import chip_from, name_of, overlay
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mpg_cli.hardware.chip import Chip

_SPACING = re.compile(r"[\s_\-™®]+")
_VENDOR_WORDS = re.compile(r"^(?:(?:nvidia|amd|intel|google|aws|tesla|geforce|radeon instinct|instinct) )+")
_LONGEST_NAME = 200

# Drivers report the gigabytes on the label as GiB, less what ECC and firmware keep (15.6e9 bytes on a T4 with
# 16 GB), or slightly more (142.5 GiB on a GH200 with 141 GB).
_MEMORY_SHARE = (0.88, 1.03)


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a lookup: `reason` says why it is that chip, or why it is none.

    `by` is "name", "name and properties", "properties", or "" where there is no chip; `part`: the device is a part of
    a chip, such as a MIG instance, so that what is stated of the chip does not hold for it.
    """

    chip: Chip | None
    reason: str
    by: str = ""
    part: bool = False


@dataclass(frozen=True, slots=True)
class _Properties:
    """What a device reports besides its name."""

    compute_capability: str | None
    units: int | None
    memory_bytes: int | None

    def fit(self, chip: Chip) -> bool:
        """Whether a device with these properties can be that chip; what is not reported may be anything."""
        capability_fits = self.compute_capability in (None, chip.compute_capability)
        if not capability_fits or self.units not in (None, chip.units):
            return False
        if self.memory_bytes is None or chip.memory_gb is None:
            return True
        share = self.memory_bytes / (float(chip.memory_gb) * 2**30)
        return _MEMORY_SHARE[0] <= share <= _MEMORY_SHARE[1]

    def are_a_part_of(self, chip: Chip) -> bool:
        """Whether the device is a partition: the right architecture, but fewer units than the chip has."""
        same = self.compute_capability in (None, chip.compute_capability)
        return same and self.units is not None and chip.units is not None and self.units < chip.units

    def __str__(self) -> str:
        parts = (
            self.compute_capability and f"compute capability {self.compute_capability}",
            self.units and f"{self.units} units",
            self.memory_bytes and f"{self.memory_bytes / 2**30:.0f} GiB",
        )
        return ", ".join(part for part in parts if part) or "no properties"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All chips, the user's first.

    `names`: normalised name to the chips that report it; `generic`: normalised name to the vendor whose
    devices all may report it.
    """

    chips: tuple[Chip, ...]
    names: Mapping[str, tuple[Chip, ...]]
    generic: Mapping[str, str]

    def lookup(
        self,
        name: str | None,
        *,
        compute_capability: str | None = None,
        sm_count: int | None = None,
        memory_bytes: int | None = None,
    ) -> Found:
        """The chip of a device from what was reported of it; None, with the reason, rather than a guess.

        `compute_capability` is "major.minor", `sm_count` counts streaming multiprocessors or compute units.
        The name decides; the properties do where it is empty, generic or shared, and they tell a partition.
        """
        seen = _Properties(compute_capability, sm_count, memory_bytes)
        key = name_key(name or "")
        chips = self.names.get(key, ())
        if len(chips) == 1:
            return _whole(chips[0], seen)
        if chips:
            return _by_properties(chips, seen, "name and properties")
        if not key or key in self.generic:
            vendor = self.generic.get(key)
            possible = [chip for chip in self.chips if vendor in (None, chip.vendor)]
            return _unnamed(possible, seen)
        if re.search(r"\bmig\b", key):
            return Found(None, "a MIG instance is a part of a chip, and its peak is not known", part=True)
        return Found(None, self._unknown(name or ""))

    def find(
        self,
        name: str | None,
        *,
        compute_capability: str | None = None,
        sm_count: int | None = None,
        memory_bytes: int | None = None,
    ) -> Chip | None:
        """The chip that `lookup` finds, or None."""
        return self.lookup(
            name, compute_capability=compute_capability, sm_count=sm_count, memory_bytes=memory_bytes
        ).chip

    def family(self, name: str) -> tuple[str, ...]:
        """The names of the chips that a shortened name such as A100 may mean."""
        start = f"{name_key(name)} "
        return _unique(
            chip.name for key, chips in self.names.items() if key.startswith(start) for chip in chips
        )

    def _unknown(self, name: str) -> str:
        family = self.family(name)
        shown = repr(name[:80])
        return f"{shown} may be {_either(family)}" if family else f"{shown} is not in the catalogue"


def find(
    name: str | None,
    *,
    compute_capability: str | None = None,
    sm_count: int | None = None,
    memory_bytes: int | None = None,
) -> Chip | None:
    """`Catalogue.find` in the shipped catalogue."""
    return load().find(
        name, compute_capability=compute_capability, sm_count=sm_count, memory_bytes=memory_bytes
    )


def lookup(
    name: str | None,
    *,
    compute_capability: str | None = None,
    sm_count: int | None = None,
    memory_bytes: int | None = None,
) -> Found:
    """`Catalogue.lookup` in the shipped catalogue."""
    return load().lookup(
        name, compute_capability=compute_capability, sm_count=sm_count, memory_bytes=memory_bytes
    )


def load(extra: Sequence[Mapping[str, Any]] = ()) -> Catalogue:
    """The shipped catalogue after the entries of `extra`: [[chip]] tables, keys as in catalogue.toml, - or _.

    An entry with the name of a shipped chip replaces only what it states; a name an entry claims is its own.
    Raises UsageError, naming the entry, for anything that makes no sense.
    """
    return _merge(extra) if extra else _shipped()


def name_key(name: str) -> str:
    """A name without capitals, vendors' words and differences of spacing; at most 200 characters count."""
    spaced = _SPACING.sub(" ", name[:_LONGEST_NAME].casefold()).strip()
    return _VENDOR_WORDS.sub("", f"{spaced} ").strip()


def _whole(chip: Chip, seen: _Properties) -> Found:
    if seen.are_a_part_of(chip):
        reason = (
            f"{seen.units} of the {chip.units} units of {chip.name}: a partition, and its peak is not known"
        )
        return Found(None, reason, part=True)
    return Found(chip, "by its name", "name")


def _unnamed(chips: Iterable[Chip], seen: _Properties) -> Found:
    if seen.compute_capability is None or seen.units is None:
        return Found(None, "the name does not tell the chip, and compute capability and units are not stated")
    return _by_properties(chips, seen, "properties")


def _by_properties(chips: Iterable[Chip], seen: _Properties, by: str) -> Found:
    fitting = [chip for chip in chips if seen.fit(chip)]
    if len(fitting) == 1:
        return Found(fitting[0], f"by {seen}", by)
    if fitting:
        return Found(None, f"{seen}: may be {_either(_unique(chip.name for chip in fitting))}")
    part = any(seen.are_a_part_of(chip) for chip in chips)
    return Found(None, f"no chip in the catalogue has {seen}", part=part)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _either(names: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _merge(extra: Sequence[Mapping[str, Any]]) -> Catalogue:
    shipped = {name_key(entry["name"]): entry for entry in _document()["chip"]}
    own: dict[str, Chip] = {}
    claims: dict[str, Chip] = {}
    for index, written in enumerate(extra, start=1):
        chip, claimed = _own_chip(written, f"[[chip]] {index}", shipped)
        own[name_key(chip.name)] = chip
        for key in claimed:
            if key in claims:
                raise UsageError(f"[[chip]] {index}: {key!r} is already a name of {claims[key].name!r}")
            claims[key] = chip
    kept = [chip for chip in _shipped().chips if name_key(chip.name) not in own]
    chips = (*own.values(), *kept)
    names = _names(chips) | {key: (chip,) for key, chip in claims.items()}
    return Catalogue(chips, MappingProxyType(names), _shipped().generic)


def _own_chip(
    written: Mapping[str, Any], where: str, shipped: Mapping[str, Mapping[str, Any]]
) -> tuple[Chip, tuple[str, ...]]:
    """The chip of a user's entry, and the (normalised) names that the entry claims."""
    entry = {"source": "mpg.toml", **{str(key).replace("-", "_"): value for key, value in written.items()}}
    name = name_of(entry, where)
    where = f"{where} {name!r}"
    base = shipped.get(name_key(name))
    chip = chip_from(overlay(base, entry, where) if base else entry, where)
    return chip, _unique(name_key(claimed) for claimed in (name, *entry.get("aliases", ())))


def _names(chips: Iterable[Chip]) -> dict[str, tuple[Chip, ...]]:
    names: dict[str, tuple[Chip, ...]] = {}
    for chip in chips:
        for key in _unique(name_key(name) for name in (chip.name, *chip.aliases)):
            names[key] = (*names.get(key, ()), chip)
    return names


@cache
def _shipped() -> Catalogue:
    document = _document()
    chips = tuple(chip_from(entry, f"catalogue.toml: {entry['name']}") for entry in document["chip"])
    generic = {name_key(name): vendor for name, vendor in document["generic_names"].items()}
    return Catalogue(chips, MappingProxyType(_names(chips)), MappingProxyType(generic))


@cache
def _document() -> dict[str, Any]:
    """catalogue.toml with its decimal numbers as written."""
    import tomllib
    from decimal import Decimal
    from importlib import resources

    text = resources.files("mpg_cli.hardware").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return tomllib.loads(text, parse_float=Decimal)
