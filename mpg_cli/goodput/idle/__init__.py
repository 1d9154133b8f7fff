"""Why devices were idle: gaps cut at the launch call that ends them, and what the host did before it."""

from mpg_cli.goodput.idle.attribute import Idle, attribute
from mpg_cli.goodput.idle.rules import IdleRules

__all__ = ["Idle", "IdleRules", "attribute"]
