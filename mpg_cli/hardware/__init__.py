"""Peak rates of accelerators, and which accelerator a reported name means."""

from mpg_cli.hardware.catalogue import Catalogue, Found, find, load, lookup
from mpg_cli.hardware.chip import Chip, Peak, Unit
from mpg_cli.hardware.dtypes import DTYPES, dtype_name

__all__ = ["DTYPES", "Catalogue", "Chip", "Found", "Peak", "Unit", "dtype_name", "find", "load", "lookup"]
