"""How many FLOPs and bytes an operator call needs, told from its recorded arguments.

call = shapes.parse(input_dims, input_types, concrete_inputs)
found = cost("aten::mm", call)            # Cost(flops, bytes, dtype, unit, model, exact) or None
Models.load(settings.models).cost(…)      # with the user's own models before the shipped ones
"""

from mpg_cli.goodput.models.costs import Cost, Model
from mpg_cli.goodput.models.declared import UserModel, user_model
from mpg_cli.goodput.models.registry import MODELS, Models, cost, has_model, is_wrapper
from mpg_cli.goodput.models.shapes import Call, Tensor, parse

__all__ = [
    "MODELS", "Call", "Cost", "Model", "Models", "Tensor", "UserModel",
    "cost", "has_model", "is_wrapper", "parse", "user_model",
]  # fmt: skip
