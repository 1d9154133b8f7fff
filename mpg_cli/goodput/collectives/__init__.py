"""Collectives: which records are one, who waited for whom and why, how much of it computing hides.

named = with_callers(activity, dataset)           names what the kernel's own name leaves open
matched, notices = match(named)                   one row per collective and rank
claims(named, matched)                            what of it is waiting, for the ledger
found = summarise(...), communicators(...)        one row per collective, one per communicator
"""

from mpg_cli.goodput.collectives.callers import with_callers
from mpg_cli.goodput.collectives.groups import communicators
from mpg_cli.goodput.collectives.matching import match
from mpg_cli.goodput.collectives.summary import summarise
from mpg_cli.goodput.collectives.transients import transient_notices
from mpg_cli.goodput.collectives.waiting import claims

__all__ = ["claims", "communicators", "match", "summarise", "transient_notices", "with_callers"]
