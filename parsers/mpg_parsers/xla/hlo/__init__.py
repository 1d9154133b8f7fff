"""HLO programs: reading their protobuf form, and what they cost to run."""

from mpg_parsers.xla.hlo.errors import HloError
from mpg_parsers.xla.hlo.module import Module, load
from mpg_parsers.xla.hlo.operations import Operation, operations
from mpg_parsers.xla.hlo.program import ProgramCost, program_flops

__all__ = ["HloError", "Module", "Operation", "ProgramCost", "load", "operations", "program_flops"]
