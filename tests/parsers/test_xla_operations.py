"""What operations of XLA do, by the categories that its profilers write and by the names that its passes make."""

from __future__ import annotations

import pytest

from mpg_parsers.xla.operations import LONGEST_NAME, Work, opcode, short_name, work

COMPUTE, MEMCPY, INFEED = Work("kernel"), Work("memcpy"), Work("infeed")

# Categories as in tsl/profiler/convert/xla_op_utils.h of openxla/xla, and as profiles of TPUs have them.
BY_CATEGORY = {
    # collectives, plain and as the two ends of an asynchronous one
    ("all-reduce", "all-reduce.1"): "all-reduce",
    ("all-reduce-start", "all-reduce-start.1"): "all-reduce",
    ("all-reduce-done", "all-reduce-done"): "all-reduce",
    ("all-gather", "all-gather.2"): "all-gather",
    ("all-gather-start", "all-gather-start.7.remat"): "all-gather",
    ("all-gather-done", "all-gather-done.7"): "all-gather",
    ("reduce-scatter", "reduce-scatter.3"): "reduce-scatter",
    ("all-to-all", "all-to-all.9"): "all-to-all",
    ("ragged-all-to-all", "ragged-all-to-all"): "ragged-all-to-all",
    ("collective-permute", "collective-permute.1"): "collective-permute",
    ("collective-permute-start", "collective-permute-start"): "collective-permute",
    ("collective-permute-done", "collective-permute-done.1"): "collective-permute",
    ("collective-broadcast", "collective-broadcast.1"): "collective-broadcast",
    # between devices; not with the host
    ("send", "send.1"): "send",
    ("send-done", "send-done.1"): "send",
    ("recv", "recv.4"): "recv",
    ("recv-done", "recv-done.4"): "recv",
    # fusions around a collective
    ("all-reduce fusion", "fusion.3"): "all-reduce",
    ("all-gather fusion", "fusion.4"): "all-gather",
    ("all-reduce-scatter fusion", "fusion.5"): "reduce-scatter",
    ("collective-permute fusion", "fusion.6"): "collective-permute",
    ("custom fusion", "async-collective-start.12"): "async-collective",
    ("custom fusion", "async-collective-done.337"): "async-collective",
    ("custom fusion", "async-collective-done"): "async-collective",
    ("loop fusion", "reduce-scatter.8"): "reduce-scatter",
    # asynchronous wrappers
    ("async-start", "reduce-scatter-start.3"): "reduce-scatter",
    ("async-done", "all-to-all-done.3.clone.1"): "all-to-all",
    ("async-update", "collective-permute-update.3"): "collective-permute",
    # without a category
    ("", "all-reduce.12"): "all-reduce",
    ("", "all-reduce.12.remat2"): "all-reduce",
    ("", "all-gather-start.1-clone"): "all-gather",
}
MOVED = [
    ("copy-start", "copy-start.1"),
    ("copy-done", "copy-done.1.remat"),
    ("copy-start", "async-copy"),
    ("async-start", "slice-start.3"),
    ("async-done", "slice-done.3"),
    ("async-start", "dynamic-slice-start.3"),
    ("async-done", "dynamic-update-slice-done.1.clone"),
    ("async-start", "copy-start.9"),
    ("async-done", "async-copy-done.2"),
    ("", "copy-start.5"),
    ("outfeed", "outfeed.1"),
    ("", "outfeed.3"),
    ("host send", "send.1"),
    ("host send-done", "send-done.1"),
    ("host recv", "recv.1"),
    ("host recv-done", "recv-done.1"),
]
COMPUTED = [
    ("loop fusion", "fusion.1"),
    ("loop fusion", "broadcast_add_fusion.1"),
    ("convolution fusion", "convolution_bitcast_fusion.4"),
    ("output fusion", "fusion.2"),
    ("custom fusion", "fusion.2"),
    ("input fusion", "reduce_fusion"),
    ("gather fusion", "fusion.9"),
    ("scatter fusion", "fusion.9"),
    ("megacore fusion", "fusion.9"),
    ("convolution", "convolution.3"),
    ("convolution base-dilated", "convolution.3"),
    ("custom-call", "flash_attention.3"),
    ("custom-call", "all-reduce-like-kernel"),
    ("data formatting", "copy.3"),
    ("copy", "copy.3"),
    ("slice", "slice.1"),
    ("dynamic-update-slice", "dynamic-update-slice.1"),
    ("broadcast", "jit_ragged_paged_attention_.2"),
    ("reduce", "reduce.1"),
    ("reduce-window", "reduce-window.1"),
    ("gather", "gather.1"),
    ("scatter", "select-and-scatter.1"),
    ("while", "while.1"),
    ("conditional", "conditional.1"),
    ("call", "call.1"),
    ("async-start", "async-start.1"),
    ("sort", "sort.1"),
    ("rng-bit-generator", "rng-bit-generator"),
    ("", "fusion.12"),
    ("", "dot.1"),
    ("", ""),
]


@pytest.mark.parametrize(("operation", "collective"), BY_CATEGORY.items(), ids=str)
def test_collectives(operation: tuple[str, str], collective: str) -> None:
    assert work(*operation) == Work("kernel", collective)


@pytest.mark.parametrize(("category", "name"), MOVED)
def test_copies_and_transfers_to_the_host(category: str, name: str) -> None:
    assert work(category, name) == MEMCPY


@pytest.mark.parametrize(("category", "name"), COMPUTED)
def test_everything_else_computes(category: str, name: str) -> None:
    assert work(category, name) == COMPUTE


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("infeed", "infeed.1"),
        ("infeed-done", "infeed-done.1"),
        ("sparsecorev0 infeed", "fusion.1"),
        ("sparsecorev0 infeed wait", "fusion.1"),
        ("", "infeed.4"),
    ],
)
def test_input(category: str, name: str) -> None:
    assert work(category, name) == INFEED


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("fusion.3", "fusion"),
        ("loop_fusion", "fusion"),
        ("add_multiply_fusion.12.remat", "fusion"),
        ("fusion.12.remat2.1", "fusion"),
        ("fusion.1.clone", "fusion"),
        ("all-reduce-start.1", "all-reduce-start"),
        ("all-reduce-start.1.clone.2", "all-reduce-start"),
        ("copy-done-clone", "copy-done"),
        ("convolution.3.1", "convolution"),
        ("dot", "dot"),
        ("rematted", "rematted"),
        ("", ""),
    ],
)
def test_opcode(name: str, found: str) -> None:
    assert opcode(name) == found


@pytest.mark.parametrize(
    ("name", "display", "short"),
    [
        ("%fusion.3 = f32[8]{0} fusion(f32[8]{0} %p)", "fusion.3", "fusion.3"),
        ("%copy-start.1 = (f32[8], f32[8], u32[]) copy-start(f32[8] %p)", "async-copy", "copy-start.1"),
        ("fusion.3 = f32[8]{0} fusion()", "", "fusion.3"),
        ("fusion.3", "", "fusion.3"),
        ("fusion.3", "shown", "shown"),
        ("%no expression", "", "%no expression"),
        ("", "", ""),
        ("x" * 1_000_000, "", "x" * LONGEST_NAME),
        ("%" + "y" * 1_000 + " = f32[] fusion()", "", "y" * LONGEST_NAME),
    ],
)
def test_short_name(name: str, display: str, short: str) -> None:
    assert short_name(name, display) == short
