"""Operand types under the names that frameworks, compilers and libraries give them."""

from __future__ import annotations

# canonical name: other names for it, in lower case and without the prefix of a namespace
_ALIASES = {
    "fp64": ("double", "float64", "f64"),
    "fp32": ("float", "float32", "f32", "single"),
    "tf32": ("tfloat32", "tensorfloat32"),
    "bf16": ("bfloat16",),
    "fp16": ("half", "float16", "f16"),
    "fp16_fp16acc": (),
    "fp8": (
        *("float8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3"),
        *("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3", "f8e4m3b11fnuz", "f8e3m4"),
        *("fp8_e4m3", "fp8_e5m2", "e4m3", "e5m2"),
    ),
    "fp8_fp16acc": (),
    "mxfp8": (),
    "int8": ("signed char", "char", "qint8", "s8", "u8", "i8"),
    "fp6": ("mxfp6", "float6_e2m3fn", "float6_e3m2fn", "f6e2m3fn", "f6e3m2fn"),
    "fp4": ("float4_e2m1fn_x2", "float4_e2m1fn", "f4e2m1fn"),
    "mxfp4": (),
    "nvfp4": (),
    "int4": ("s4", "u4", "i4"),
}
# torch.uint8 ("unsigned char") is left out on purpose: it often holds packed fp4 or fp8.

DTYPES = tuple(_ALIASES)
_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases)}


def dtype_name(reported: str) -> str | None:
    """The canonical name (one of DTYPES) of e.g. c10::BFloat16, torch.float16, f8e4m3fn; None if it has none.

    `float` is fp32: whether a matrix multiplication of it ran in TF32 cannot be told from the type.
    """
    return _NAMES.get(reported.strip().lower().removeprefix("c10::").removeprefix("torch."))
