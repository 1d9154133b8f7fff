"""The catalogue as text, for `mpg hardware [NAME]`."""

from __future__ import annotations

import difflib
import textwrap
from typing import TYPE_CHECKING

from mpg_cli.hardware.catalogue import Catalogue, load, name_key
from mpg_parsers.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from mpg_cli.hardware.chip import Chip, Peak

WIDTH = 80
_COLUMNS = ("tf32", "bf16", "fp16", "fp8", "int8")
_NONE = "–"


def hardware_text(name: str | None, catalogue: Catalogue | None = None) -> str:
    """All chips as a table of 80 columns, or all that is known of the one called or reported as `name`.

    Raises UsageError, with the nearest names, if the name is unknown or may mean several chips.
    """
    known = catalogue or load()
    return "\n".join(_table(known) if name is None else _details(chip_called(known, name))) + "\n"


def chip_called(catalogue: Catalogue, name: str) -> Chip:
    """The one chip called or reported as `name`. Raises UsageError, with the nearest names, if there is none."""
    chips = catalogue.names.get(name_key(name), ())
    if len(chips) == 1:
        return chips[0]
    names = tuple(chip.name for chip in chips) or catalogue.family(name)
    if names:
        raise UsageError(f"{name[:80]!r} may mean several chips", hint=f"one of: {', '.join(names)}")
    near = difflib.get_close_matches(name_key(name), catalogue.names, n=1)
    meant = f"; did you mean {catalogue.names[near[0]][0].name!r}?" if near else ""
    raise UsageError(f"no chip {name[:80]!r}{meant}", hint="mpg hardware lists all chips")


def _table(catalogue: Catalogue) -> Iterator[str]:
    yield f"{'':<28}{'memory':>12}  dense peak of the matrix unit, TFLOP/s"
    yield f"{'chip':<28}{'GB':>5}{'GB/s':>7}" + "".join(f"{dtype:>8}" for dtype in _COLUMNS)
    vendor = None
    for chip in catalogue.chips:
        if chip.vendor != vendor:
            vendor = chip.vendor
            yield f"\n{vendor}"
        yield _chip_row(chip)
    yield ""
    yield f"{_NONE} no sourced figure. A row is one device as software sees it, such as one GCD;"
    yield "mpg hardware NAME says which, with the other figures and their sources."


def _chip_row(chip: Chip) -> str:
    rates = "".join(f"{_rate(chip.peak(dtype)):>8}" for dtype in _COLUMNS)
    return f"{chip.name:<28.28}{_number(chip.memory_gb):>5}{_number(chip.bandwidth_gbps):>7}{rates}"


def _rate(peak: Peak | None) -> str:
    return _number(peak.tflops if peak else None)


def _number(value: Decimal | None) -> str:
    """Without trailing zeros and exponent."""
    if value is None:
        return _NONE
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _details(chip: Chip) -> Iterator[str]:
    sources: dict[str, int] = {}
    yield f"{chip.name} ({chip.vendor})" if chip.vendor else chip.name
    for label, text in _facts(chip):
        yield from _wrapped(f"  {label:<20}", text)
    yield ""
    for label, value, source in _figures(chip):
        number = sources.setdefault(source, len(sources) + 1)
        yield f"  {label:<36}{value:>12}  [{number}]"
    yield ""
    for source, number in sources.items():
        yield from _wrapped(f"  [{number}] ", source)


def _facts(chip: Chip) -> Iterator[tuple[str, str]]:
    facts = {
        "device": chip.device,
        "reported as": ", ".join(chip.aliases),
        "compute capability": chip.compute_capability or "",
        "units": str(chip.units or ""),
        "interconnect": chip.interconnect,
        "note": chip.note,
    }
    return ((label, text) for label, text in facts.items() if text)


def _figures(chip: Chip) -> Iterator[tuple[str, str, str]]:
    """(what, figure, source) of everything that is known."""
    if chip.memory_gb is not None:
        yield "memory, GB", _number(chip.memory_gb), chip.memory_source
    if chip.bandwidth_gbps is not None:
        yield "memory bandwidth, GB/s", _number(chip.bandwidth_gbps), chip.bandwidth_source
    for peak in chip.peaks:
        yield f"{peak.unit} {peak.dtype}, dense peak, TFLOP/s", _number(peak.tflops), peak.source
    for rate in chip.measured:
        yield f"{rate.dtype}, sustained, TFLOP/s", _number(rate.tflops), rate.source


def _wrapped(head: str, text: str) -> list[str]:
    """`text` after `head`, continued below itself; addresses stay whole."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
