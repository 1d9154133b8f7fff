"""Scaled dot-product attention, softmax(Q·Kᵀ)·V: only the pairs of query and key that the mask admits count.

    forward    2 · pairs · (d + e)         d: width of a query and key head, e: of a value head (two products)
    backward   2 · pairs · (3·d + 2·e)     five products: Q·Kᵀ is computed again (arXiv:2205.14135)

pairs: over all sequences and query heads. With fewer key-value heads (GQA) every query head still counts. A
causal mask admits (i, j) for j ≤ i + N_kv − N_q, aligned at the bottom right (flash-attn from 2.1, AITER), or
for j ≤ i, at the top left (is_causal of PyTorch's own, except in flash attention); a window limits i − j as
well. An additive mask is invisible: all pairs count. Bytes leave out the saved log-sum-exp (4 per query and
head) and masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from mpg_cli.goodput.models import batch
from mpg_cli.goodput.models.costs import Cost, Model, matrix
from mpg_cli.goodput.models.shapes import Call, Tensor

MODEL = "attention"
Corner = Literal["bottom right", "top left"]


@dataclass(frozen=True, slots=True)
class Form:
    """Where an operator has its arguments; -1: nowhere.

    query: place of Q, with K and V behind it; heads: place of the heads' dimension counted from the end;
    window: of its left side, the right behind it; packed: of the offsets of the query sequences, those of the
    keys behind it; longest: of the longest query sequence, that of the keys behind it; hiding: of tensors
    that, if given, hide the lengths; pool: K and V are a pool of pages that all sequences share; numbered:
    the mask is a number, 0 none, 1 causal from the top left, 2 from the bottom right (xFormers).
    """

    causal: int
    query: int = 0
    heads: int = 2
    backward: bool = False
    window: int = -1
    packed: int = -1
    longest: int = -1
    hiding: tuple[int, ...] = ()
    pool: bool = False
    corner: Corner = "bottom right"
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """The keys a query sees before and after its place, None for no limit; `corner`: where places align."""

    left: int | None
    right: int | None
    corner: Corner

    def pairs(self, queries: int, keys: int) -> int:
        """How many of queries × keys the mask admits."""
        shift = keys - queries if self.corner == "bottom right" else 0
        upper = queries * keys if self.right is None else _clamped(queries, keys, shift + self.right + 1)
        lower = 0 if self.left is None else _clamped(queries, keys, shift - self.left)
        return max(upper - lower, 0)


def _clamped(count: int, top: int, start: int) -> int:
    """Σ over i < count of min(max(i + start, 0), top)."""
    return _ramp(start + count - 1, top) - _ramp(start - 1, top)


def _ramp(last: int, top: int) -> int:
    """Σ over 0 ≤ t ≤ last of min(t, top)."""
    if last <= top:
        return last * (last + 1) // 2 if last > 0 else 0
    return top * (top + 1) // 2 + (last - top) * top


def attention(call: Call, form: Form) -> Cost | None:
    """One attention operator; None where a length, the mask or a head's width is not in the record."""
    q, k, v = (call.tensor(form.query + index) for index in range(3))
    mask = _mask(call, form)
    if q is None or k is None or v is None or mask is None or any(map(call.tensor, form.hiding)):
        return None
    if form.packed >= 0 and call.tensor(form.packed):
        return _packed(call, form, mask, (q, k, v))
    return _dense(form, mask, (q, k, v))


def _mask(call: Call, form: Form) -> Mask | None:
    if form.numbered:
        kind = call.integer(form.causal)
        corner: Corner = "bottom right" if kind == 2 else "top left"
        return Mask(None, 0 if kind else None, corner) if kind in {0, 1, 2} else None
    causal = call.flag(form.causal)
    left, right = (_limit(call, form.window + index) if form.window >= 0 else None for index in (0, 1))
    return None if causal is None else Mask(left, 0 if causal else right, form.corner)


def _limit(call: Call, index: int) -> int | None:
    """A side of the window; negative or not given: no limit."""
    value = call.integer(index)
    return None if value is None or value < 0 else value


def _dense(form: Form, mask: Mask, qkv: tuple[Tensor, Tensor, Tensor]) -> Cost | None:
    """[batch, tokens, heads, width] for heads = 2, [batch, heads, tokens, width] for heads = 3."""
    q, k, v = qkv
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        return None
    tokens = -2 if form.heads == 3 else -3
    length, heads = q.shape[tokens], q.shape[-form.heads]
    same_keys = k.shape[tokens] == v.shape[tokens] and k.shape[-form.heads] == v.shape[-form.heads]
    if not same_keys or q.shape[0] != k.shape[0] or not _heads_fit(q, k, form.heads):
        return None
    pairs = q.shape[0] * heads * mask.pairs(length, k.shape[tokens])
    return _cost(form, qkv, pairs)


def _heads_fit(q: Tensor, k: Tensor, place: int) -> bool:
    heads, shared = q.shape[-place], k.shape[-place]
    return q.shape[-1] == k.shape[-1] and shared > 0 and heads % shared == 0


def _packed(call: Call, form: Form, mask: Mask, qkv: tuple[Tensor, Tensor, Tensor]) -> Cost | None:
    """Sequences of differing length one behind the other, [tokens, heads, width], and the offsets of their
    starts.

    The offsets' values are not recorded, only their number, the total and the longest length.
    """
    q, k, v = (_without_batch(tensor) for tensor in qkv)
    offsets = call.tensor(form.packed)
    queries = _lengths(offsets, q, call.integer(form.longest))
    keys = _lengths(offsets, q if form.pool else k, call.integer(form.longest + 1))
    if (
        not len(q.shape) == len(k.shape) == len(v.shape) == 3
        or not _heads_fit(q, k, 2)
        or not queries
        or not keys
    ):
        return None
    found = _pool_pairs(call, mask, queries, keys) if form.pool else _pairs(mask, queries, keys)
    if found is None:
        return None
    k, v = (Tensor((found.keys, *tensor.shape[1:]), tensor.dtype) for tensor in (k, v))
    return _cost(form, (q, k, v), found.pairs * q.shape[1], exact=found.exact)


@dataclass(frozen=True, slots=True)
class Lengths:
    """What is known of the lengths of sequences: how many, their sum and the longest."""

    count: int
    total: int
    longest: int

    @property
    def equal(self) -> bool:
        """Whether all have one length."""
        return self.count == 1 or self.total == self.count * self.longest


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of query and key in a batch, the keys in it, and whether that is exact or a lower bound."""

    pairs: int
    keys: int
    exact: bool = True


def _without_batch(tensor: Tensor) -> Tensor:
    """Without a leading dimension of one, which PyTorch's efficient attention wants."""
    return (
        Tensor(tensor.shape[1:], tensor.dtype) if len(tensor.shape) == 4 and tensor.shape[0] == 1 else tensor
    )


def _lengths(offsets: Tensor | None, tensor: Tensor, longest: int | None) -> Lengths | None:
    if offsets is None or offsets.numel < 2 or longest is None or not tensor.shape:
        return None
    return Lengths(offsets.numel - 1, tensor.shape[0], longest)


def _pool_pairs(call: Call, mask: Mask, queries: Lengths, keys: Lengths) -> Pairs | None:
    """With keys in pages, whose number the shapes hide, and a causal mask without a window.

    A sequence has at least as many keys as queries; where all queries are as long as the longest keys, the
    keys are too. Otherwise the annotation of the engine may have the sums (see `batch`).
    """
    if mask.left is not None or mask.right != 0:
        return None
    if queries.equal and queries.total == queries.count * keys.longest:
        return Pairs(queries.count * mask.pairs(keys.longest, keys.longest), queries.total)
    sums = batch.parse(call.annotation)
    if sums is None or sums.keys is None or sums.queries != queries.total:
        return None
    return Pairs(sums.causal_pairs, sums.keys, sums.exact)


def _pairs(mask: Mask, queries: Lengths, keys: Lengths) -> Pairs | None:
    """Exact for one sequence or equal lengths. In self-attention (queries and keys agree) without a window
    the pairs of a sequence are convex in its length, so one of the longest and the rest alike give a lower
    bound. None otherwise.
    """
    if queries.equal and keys.equal:
        each = mask.pairs(queries.total // queries.count, keys.total // keys.count)
        return Pairs(queries.count * each, keys.total)
    rest, others = queries.total - queries.longest, queries.count - 1
    if (
        queries != keys
        or mask.left is not None
        or mask.right not in {None, 0}
        or not 0 <= rest <= others * queries.longest
    ):
        return None
    short, longer = divmod(rest, others)
    longest, less, more = (mask.pairs(length, length) for length in (queries.longest, short, short + 1))
    return Pairs(longest + (others - longer) * less + longer * more, keys.total, exact=False)


def _cost(form: Form, qkv: tuple[Tensor, Tensor, Tensor], pairs: int, *, exact: bool = True) -> Cost | None:
    q, k, v = qkv
    d, e = q.shape[-1], v.shape[-1]
    out = Tensor((*q.shape[:-1], e), q.dtype)
    flops = 2 * pairs * ((3 * d + 2 * e) if form.backward else (d + e))
    moved = [q, k, v, out, out, q, k, v] if form.backward else [q, k, v, out]
    return matrix(MODEL, flops, q, moved, exact=exact)


TOP: Corner = "top left"

# places of arguments: native_functions.yaml for aten; flash-attn, flash-attn 3 and AITER register their
# Python functions
FORMS = {
    "aten::_flash_attention_forward": Form(causal=8, packed=3, longest=5, window=11, hiding=(13,)),
    "aten::_flash_attention_backward": Form(
        causal=11, query=1, packed=6, longest=8, window=15, backward=True
    ),
    "aten::_scaled_dot_product_flash_attention": Form(causal=4, heads=3),
    "aten::_scaled_dot_product_flash_attention_backward": Form(causal=11, query=1, heads=3, backward=True),
    "aten::_scaled_dot_product_efficient_attention": Form(causal=6, heads=3, corner=TOP),
    "aten::_scaled_dot_product_efficient_attention_backward": Form(
        causal=11, query=1, heads=3, backward=True, corner=TOP
    ),
    "aten::_efficient_attention_forward": Form(causal=9, packed=4, longest=6, numbered=True, hiding=(12,)),
    "aten::_efficient_attention_backward": Form(
        causal=14, query=1, packed=6, longest=8, numbered=True, backward=True
    ),
    "aten::_scaled_dot_product_cudnn_attention": Form(causal=6, heads=3, corner=TOP),
    "aten::_scaled_dot_product_cudnn_attention_backward": Form(
        causal=14, query=1, heads=3, backward=True, corner=TOP
    ),
    "aten::_cudnn_attention_forward": Form(causal=10, heads=3, hiding=(4,), corner=TOP),
    "aten::_scaled_dot_product_fused_attention_overrideable": Form(causal=5, heads=3, corner=TOP),
    "aten::scaled_dot_product_attention": Form(causal=5, heads=3, corner=TOP),
    "flash_attn::_flash_attn_forward": Form(causal=5, window=6),
    "flash_attn::_flash_attn_backward": Form(causal=11, query=1, window=12, backward=True),
    "flash_attn::_flash_attn_varlen_forward": Form(causal=9, packed=3, longest=5, window=10, hiding=(15, 17)),
    "flash_attn::_flash_attn_varlen_backward": Form(
        causal=15, query=1, packed=9, longest=11, window=16, backward=True
    ),
    "flash_attn_3::fwd": Form(causal=24, packed=7, longest=12, window=25, hiding=(10, 11, 14)),
    "flash_attn_3::_flash_attn_forward": Form(
        causal=24, packed=7, longest=12, window=25, hiding=(10, 11, 14)
    ),
    "flash_attn_3::_flash_attn_backward": Form(
        causal=16, query=1, packed=6, longest=10, window=17, backward=True
    ),
    "aiter::mha_fwd": Form(causal=5, window=6),
    "aiter::fmha_v3_fwd": Form(causal=5, window=6),
    "aiter::mha_bwd": Form(causal=8, query=1, window=9, backward=True),
    "aiter::fmha_v3_bwd": Form(causal=8, query=1, window=9, backward=True),
    "aiter::mha_varlen_fwd": Form(causal=12, packed=3, longest=5, window=13),
    "aiter::fmha_v3_varlen_fwd": Form(causal=12, packed=3, longest=5, window=13),
    "aiter::mha_varlen_bwd": Form(causal=13, query=1, packed=6, longest=8, window=14, backward=True),
    "aiter::mha_batch_prefill": Form(causal=12, packed=3, longest=6, window=13, pool=True),
}

OPS: dict[str, Model] = {name: partial(attention, form=form) for name, form in FORMS.items()}

WRAPPERS = frozenset(
    name
    for name in FORMS
    if name.startswith(("aten::scaled_dot_product", "aten::_scaled_dot_product"))
    and "overrideable" not in name
)
