from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.report.shapes import operands

BF16 = "c10::BFloat16"
NESTED = st.recursive(
    st.none() | st.integers(-(2**63), 2**63) | st.text(max_size=5), lambda inner: st.lists(inner, max_size=5)
)


@pytest.mark.parametrize(
    ("dims", "dtypes", "expected"),
    [
        ([[16, 5185, 64], [16, 64, 5185]], [BF16, BF16], "16×5185×64 · 16×64×5185 bf16"),
        ([[16, 5185, 5185], [], []], [BF16, "Scalar", "Scalar"], "16×5185×5185 bf16"),
        ([[8], [8], [8, 2], []], ["float", BF16, BF16, "Scalar"], "8 (2×) · 8×2 fp32/bf16"),
        ([[1024], [5185, 64], [64, 1024], [], []], [BF16] * 3, "5185×64 · 64×1024 bf16"),  # a bias
        ([[1024], [16, 559, 1024]], ["double", "double"], "1024 · 16×559×1024 fp64"),
        ([[[16, 8], [16, 8], [4]], []], ["TensorList", "Scalar"], "16×8 (2×) · 4"),
        ([[[16, 8], [16, 8]]], [["c10::Half", "c10::Half"]], "16×8 (2×) fp16"),
        ([[1], [2], [3], [4], [5]], [], "1 · 2 · 3 · 4 · …"),
        ([[1, 2, 3, 4, 5, 6, 7, 8, 9]], [], "1×2×3×4×5×6×7×8×…"),
        ([[2], [3], [4]], ["long int", "bool", "c10::Float8_e4m3fn"], "2 · 3 · 4 int64/bool/…"),
        ([[7]], ["c10::Float8_e5m2fnuz"], "7 fp8"),
        ([[7], ["..."]], ["something_long", 3], "7 someth…_long"),
        ([], [], ""),
        ([3, None, "x", [True]], [], ""),
    ],
)
def test_operands(dims: object, dtypes: object, expected: str) -> None:
    indented = orjson.dumps(dims, option=orjson.OPT_INDENT_2).decode()
    assert operands(orjson.dumps(dims).decode(), orjson.dumps(dtypes).decode()) == expected
    assert operands(indented, orjson.dumps(dtypes).decode()) == expected


@pytest.mark.parametrize("raw", ["", "no JSON", "{}", "[[1,2]", '"text"', "[" * 5_000, "x" * 5_000])
def test_other_text_is_shown_as_it_is(raw: str) -> None:
    shown = operands(raw, raw)
    assert shown == raw if len(raw) <= 80 else shown.count("…") == 1
    assert len(shown) <= 80


def test_long_lists_are_not_read() -> None:
    assert operands(orjson.dumps([[1]] * 50_000).decode(), "[]").startswith("[[1],[1],")


@given(NESTED, NESTED)
def test_any_json_is_bounded(dims: object, dtypes: object) -> None:
    assert len(operands(orjson.dumps(dims).decode(), orjson.dumps(dtypes).decode())) <= 800
