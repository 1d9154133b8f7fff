import contextlib
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.goodput.models import Models, user_model
from mpg_cli.goodput.models.formula import parse
from mpg_parsers.errors import UsageError
from tests.mpg_cli.goodput.models.calls import bf, call, t

MOE = {
    "op": "vllm::moe_forward",
    "flops": "2 * tokens * hidden * inter * 3 * topk",
    "bytes": "3 * hidden * inter * experts / 2",
    "dims": {"tokens": "0.0", "hidden": "0.1", "inter": 2880, "topk": 4, "experts": "2"},
}


def test_a_mixture_of_experts_by_hand():
    model = user_model(MOE)
    found = model(call(bf(888, 3072), bf(888, 128), "128"))
    assert found.flops == 2 * 888 * 3072 * 2880 * 3 * 4
    assert found.bytes == 3 * 3072 * 2880 * 64
    assert (found.dtype, found.unit, found.model) == ("c10::BFloat16", "matrix", "declared")
    assert model(call(bf(888, 3072), bf(888, 128), "")) is None  # experts is not in the record
    assert model(call(bf(888), bf(888, 128), "128")) is None


def test_type_and_unit_can_be_stated():
    model = user_model({"op": "a::b", "flops": "0", "dtype": "c10::Float8_e4m3fn", "unit": "vector"})
    found = model(call(t(2)))
    assert (found.flops, found.bytes, found.dtype, found.unit) == (0, None, "c10::Float8_e4m3fn", "vector")
    assert user_model({"op": "a::b", "flops": "7"})(call("")).dtype is None


def test_a_declared_model_goes_before_a_shipped_one():
    models = Models.load([{"op": "aten::mm", "flops": "n", "dims": {"n": "0.0"}}])
    assert models.cost("aten::mm", call(t(3, 4), t(4, 5))).flops == 3
    assert models.cost("aten::addmm", call(t(5), t(3, 4), t(4, 5))).flops == 120
    assert (models.has_model("a::b"), Models.load().has_model("aten::mm")) == (False, True)
    assert Models.load([MOE]).has_model("vllm::moe_forward")
    with pytest.raises(UsageError, match=r"model 'vllm::moe_forward' is declared twice"):
        Models.load([MOE, MOE])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("n", 10), ("-3 + n", 7), ("n - -3", 13), ("2 * n + 1", 21), ("n // 3", 3), ("n / 4", 2),
        ("n / 4 * 4", 10),
        ("2 ** n", 1024), ("n ** 0", 1), ("(n + 2) ** 2", 144), ("min(n, 3)", 3), ("max(n, 3, 12)", 12),
        (" n\t", 10),
        ("1_000", 1000), ("(n / 4) ** 2", 6), ("2 ** 2 ** 3", 256),
    ],
)  # fmt: skip
def test_formulas(text, value):
    assert parse(text, {"n"}, "x")({"n": 10}) == value


HOSTILE = [
    "9 ** 9 ** 9", "2 ** 99999999", "n ** (n ** n ** n)", "n ** -1", "2 ** (1 / 2)", "1 / 0",
    "n // (n - n)", "-n", "1 - n",
    "(2 ** 4000) ** 2",
]  # fmt: skip
MEANINGLESS = [
    "", " ", "m", "n.real", "n.__class__", "__import__('os')", "n[0]", "[n]", "lambda: n", "n if n else n",
    "n = 2", "n; n",
    "n and n", "n < 2", "not n", "~n", "n % 2", "n | 2", "n @ n", "n >> 1", "1.5", "'n'", "None", "True",
    "abs(n)", "min(n)",
    "min(*n)", "min(n, key=n)", "min()", "print(n, n)", "(n, n)", "n n", "(n", "2n", "0x1f", "1or 2",
    "n" * 2000, "(" * 900, "-" * 900 + "1",
    "n+" * 400 + "n", "ｎ", "n\x00", "f(n)(n)", "min(n, n).real", None, 7, ["n"],
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_cannot_be_computed_says_so_at_once(text):
    model = user_model({"op": "a::b", "flops": text, "dims": {"n": "0.0"}})
    start = time.perf_counter()
    with pytest.raises(UsageError, match=r"^model 'a::b': flops: "):
        model(call(t(10)))
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize("text", MEANINGLESS)
def test_what_is_no_formula_is_refused_when_it_is_declared(text):
    start = time.perf_counter()
    with pytest.raises(UsageError, match=r"^model 'a::b': flops: "):
        user_model({"op": "a::b", "flops": text, "dims": {"n": "0.0"}})
    assert time.perf_counter() - start < 0.5


@given(st.text("n0123456789+-*/(),. _**//minax[]{}:'\"=\\", max_size=60))
def test_any_text_gives_a_number_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert parse(text, {"n"}, "x")({"n": 3}) >= 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": None}, "needs 'op'"),
        ({"op": ""}, "needs 'op'"),
        ({"flop": "1"}, "unknown key 'flop'"),
        ({"dims": ["tokens"]}, "dims must be a table"),
        ({"dims": {"tokens": "0.0.0"}}, r"dims\.tokens"),
        ({"dims": {"tokens": 1.5}}, r"dims\.tokens"),
        ({"dims": {"tokens": True}}, r"dims\.tokens"),
        ({"dims": {"hidden": 1, "inter": 2, "experts": 3}}, "flops: unknown name 'tokens'"),
        ({"bytes": "weights"}, "bytes: unknown name 'weights'"),
        ({"dtype": 16}, "dtype must be a text"),
        ({"unit": "tensor"}, "neither matrix nor vector"),
    ],
)
def test_a_bad_declaration_names_the_model_and_the_mistake(change, message):
    with pytest.raises(UsageError, match=message) as caught:
        user_model(MOE | change)
    assert "vllm::moe_forward" in str(caught.value) or "op" in change


def test_flops_beyond_any_device_are_refused():
    models = Models.load([{"op": "a::b", "flops": "n ** 20", "dims": {"n": "0.0"}}])
    assert models.cost("a::b", replace(call(t(1000)), complete=True)) is None
    assert models.cost("a::b", call(t(5))).flops == 5**20
