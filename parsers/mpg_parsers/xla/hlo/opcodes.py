"""Kinds of HLO operations, by opcode. Source: xla/hlo/ir/hlo_opcode.h and hlo_cost_analysis.cc."""

TRANSCENDENTAL = frozenset((
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosh", "cosine", "erf", "exponential",
    "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "rsqrt", "sine", "sinh", "sqrt", "tan", "tanh",
))  # fmt: skip
SIMPLE = frozenset((
    "abs", "add", "and", "bitcast-convert", "ceil", "clamp", "compare", "complex", "convert", "count-leading-zeros",
    "divide", "floor", "imag", "is-finite", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "real",
    "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "stochastic-convert", "subtract", "xor",
))  # fmt: skip
ELEMENTWISE = TRANSCENDENTAL | SIMPLE
# Operations of which a profile shows what they call, as operations of their own.
CONTAINERS = frozenset(("while", "conditional", "call"))
MATRIX = frozenset(("dot", "ragged-dot", "scaled-dot", "convolution"))
