"""One sentence per field of the report, for its JSON Schema and the documentation."""

from __future__ import annotations

from mpg_cli.report.descriptions.account import ACCOUNT
from mpg_cli.report.descriptions.attribution import ATTRIBUTION
from mpg_cli.report.descriptions.program import PROGRAM
from mpg_cli.report.descriptions.scheduling import SCHEDULING
from mpg_cli.report.descriptions.xla import XLA

__all__ = ["DESCRIPTIONS"]

DESCRIPTIONS: dict[str, dict[str, str]] = ACCOUNT | ATTRIBUTION | PROGRAM | SCHEDULING | XLA
