"""Kernels of inference engines (vLLM, SGLang, AITER): activations, rotary embedding, KV-cache writes,
quantisation.

Mixture-of-experts operators are opaque: which experts run, and their sizes, are not in the arguments. A user
can declare them (see `formula`).
"""

from __future__ import annotations

import re

from mpg_cli.goodput.models import batch
from mpg_cli.goodput.models.costs import Cost, Model, matrix, vector
from mpg_cli.goodput.models.shapes import Call, Tensor

ENGINES = ("_C", "sgl_kernel", "aiter")


def once(call: Call) -> Cost | None:
    """(out, x, …), each touched once; x is [tokens, 2·width] for gated activations."""
    return vector("serving", call.tensors) if call.tensors and call.complete else None


def rotary(call: Call) -> Cost | None:
    """rotary_embedding (positions, query, key, head size, table [positions, width], …): query and key are
    updated in place; one row of the table per position is read, at most all of it.
    """
    positions, query, key, table = (call.tensor(index) for index in (0, 1, 2, 4))
    if positions is None or query is None or table is None or len(table.shape) != 2:
        return None
    rows = Tensor((min(positions.numel, table.shape[0]), table.shape[1]), table.dtype)
    return vector("rotary embedding", [query, key, query, key, positions, rows])


def cache_write(call: Call) -> Cost | None:
    """reshape_and_cache (key, value, key cache, value cache, slots, …): in the cache's element type."""
    key, value, key_cache, value_cache, slots = (call.tensor(index) for index in range(5))
    if key is None or value is None or key_cache is None or value_cache is None:
        return None
    stored = [Tensor(key.shape, key_cache.dtype), Tensor(value.shape, value_cache.dtype)]
    return vector("cache write", [key, value, slots, *stored])


def paged_attention(call: Call) -> Cost | None:
    """vLLM's unified attention (query [tokens, heads, width], key, value, …) over a paged cache.

    The arguments hold neither lengths nor mask. The lengths' sums come from the engine's annotation (see
    `batch`); the mask must be told by the kernel's name: causal, and no sliding window or chunks. FLOPs as in
    `attention`; bytes are those of the arguments, a lower bound, because what is read of the cache is not
    known.
    """
    q, k, v = (call.tensor(index) for index in range(3))
    sums = batch.parse(call.annotation)
    if q is None or k is None or v is None or sums is None or not FULL_CAUSAL.search(call.kernel or ""):
        return None
    if not len(q.shape) == len(k.shape) == len(v.shape) == 3 or sums.queries > q.shape[0]:
        return None
    out = call.tensor(3) or Tensor((*q.shape[:-1], v.shape[-1]), v.dtype)
    flops = 2 * sums.causal_pairs * q.shape[1] * (q.shape[-1] + v.shape[-1])
    return matrix("attention", flops, q, [q, k, v, out], exact=False)


# names as in TensorRT-LLM's fmha…PagedKvCausal… and …PagedKvSlidingOrChunkedCausal…
FULL_CAUSAL = re.compile(r"^(?!.*(?i:sliding|chunk|window|local)).*Causal")

OPS: dict[str, Model] = {
    **{
        f"{engine}::{name}_and_mul": once
        for engine in ENGINES
        for name in ("silu", "gelu", "gelu_tanh", "gelu_new")
    },
    **dict.fromkeys(("_C::rotary_embedding", "sgl_kernel::rotary_embedding"), rotary),
    **dict.fromkeys(
        ("_C_cache_ops::reshape_and_cache", "_C_cache_ops::reshape_and_cache_flash", "sglang::store_cache"),
        cache_write,
    ),
    **{f"_C::{kind}_scaled_fp8_quant": once for kind in ("static", "dynamic", "dynamic_per_token")},
    **dict.fromkeys(("vllm::unified_attention", "vllm::unified_attention_with_output"), paged_attention),
    **{f"sgl_kernel::sgl_{name}": once for name in ("per_token_quant_fp8", "per_tensor_quant_fp8")},
}
