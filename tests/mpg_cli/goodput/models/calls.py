"""Calls as Kineto records them, written briefly: a tensor is (sizes, type), a list of them a list, the rest
is text.
"""

import json

from mpg_cli.goodput.models import parse


def t(*sizes, dtype="float"):
    return list(sizes), dtype


def bf(*sizes):
    return t(*sizes, dtype="c10::BFloat16")


def record(arguments):
    """The three JSON texts."""
    dims, types, concrete = [], [], []
    for argument in arguments:
        if isinstance(argument, tuple):
            dims.append(argument[0])
            types.append(argument[1])
            concrete.append("")
        elif isinstance(argument, list):
            dims.append([sizes for sizes, _ in argument])
            types.append("TensorList")
            concrete.append("")
        else:
            dims.append([])
            types.append("" if argument == "" else "ScalarList" if argument.startswith("[") else "Scalar")
            concrete.append(argument)
    return json.dumps(dims), json.dumps(types), json.dumps(concrete)


def call(*arguments, concrete=True):
    """The parsed call; without scalars if not `concrete`, as before 2023."""
    dims, types, scalars = record(arguments)
    return parse(dims, types, scalars if concrete else None)
