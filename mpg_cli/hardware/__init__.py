"""Peak rates of accelerators, and which accelerator a reported name means."""

from mpg_cli.hardware.catalogue import Catalogue, Found, find, load, lookup
from mpg_cli.hardware.chip import Chip, Peak, Unit
from mpg_cli.hardware.dtypes import DTYPES, dtype_name
from mpg_cli.hardware.stated import Stated

__all__ = [
    "DTYPES",
    "Catalogue",
    "Chip",
    "Found",
    "Peak",
    "Stated",
    "Unit",
    "dtype_name",
    "find",
    "load",
    "lookup",
]
