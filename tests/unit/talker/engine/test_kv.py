"""Paged attention: equal to plain attention, and the same bits however it is cut and batched."""

from __future__ import annotations

import pytest
import torch

from talker.engine.blocks import BLOCK_POSITIONS, BlockAllocator
from talker.engine.kv import PagedCaches
from talker.models.base import CacheSpec, Plan, Slice, TalkerStream

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
LENGTH = 400


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def tokens(spec: CacheSpec, length: int, seed: int = 0) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(length, spec.heads, spec.head_dim, generator=generator)
    k = torch.randn(length, spec.kv_heads, spec.head_dim, generator=generator)
    v = torch.randn(length, spec.kv_heads, spec.head_dim, generator=generator)
    return q, k, v


def part(table: tuple[int, ...], start: int, stop: int) -> Slice:
    return Slice(_NoStream, Plan(start, stop - start), table)  # type: ignore[arg-type]


class _NoStream(TalkerStream):  # type: ignore[misc]
    """Attention never looks at the stream."""


def run(caches: PagedCaches, slices: list[Slice], qkv: list[Tensors]) -> list[torch.Tensor]:
    cut = [[x[s.plan.start : s.plan.end] for x in t] for s, t in zip(slices, qkv, strict=True)]
    q, k, v = (torch.cat(column) for column in zip(*cut, strict=True))
    out = caches.attend(slices)["backbone"](0, q, k, v)
    return list(out.split([s.plan.count for s in slices]))


@pytest.mark.parametrize(
    "spec", [CacheSpec(1, 4, 4, 64), CacheSpec(1, 4, 2, 32)], ids=["multi-head", "grouped"]
)
def test_a_prefill_equals_plain_causal_attention(spec: CacheSpec) -> None:
    q, k, v = tokens(spec, 200)
    caches = PagedCaches({"backbone": spec}, 13)
    (out,) = run(caches, [part(tuple(range(13)), 0, 200)], [(q, k, v)])
    group = spec.heads // spec.kv_heads
    wide = [x.repeat_interleave(group, 1).transpose(0, 1)[None] for x in (k, v)]
    reference = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1)[None], *wide, is_causal=True
    )
    assert torch.allclose(out, reference[0].transpose(0, 1), atol=1e-5)


def test_decode_prefill_and_company_give_the_same_bits() -> None:
    """What a takeover needs: a prefill of everything equals having decoded it one by one."""
    spec = CacheSpec(1, 4, 4, 64)
    blocks = 2 * LENGTH // BLOCK_POSITIONS + 2
    mine, theirs = tokens(spec, LENGTH), tokens(spec, LENGTH, seed=1)
    allocator = BlockAllocator(blocks)
    whole = PagedCaches({"backbone": spec}, blocks)
    allocator.reserve("whole", LENGTH)
    (reference,) = run(whole, [part(allocator.table("whole"), 0, LENGTH)], [mine])
    allocator.release("whole")

    caches = PagedCaches({"backbone": spec}, blocks)
    allocator.reserve("a", 40)
    prompt = run(caches, [part(allocator.table("a"), 0, 40)], [mine])[0]
    assert torch.equal(prompt, reference[:40])
    for position in range(40, LENGTH):
        allocator.reserve("a", position + 1)
        slices, inputs = [part(allocator.table("a"), position, position + 1)], [mine]
        if position % 3 == 0:  # sometimes alone, sometimes with a neighbour of another length
            at = position // 3
            allocator.reserve("b", at + 1)
            slices.append(part(allocator.table("b"), at, at + 1))
            inputs.append(theirs)
        out = run(caches, slices, inputs)[0]
        assert torch.equal(out[0], reference[position]), position


@pytest.mark.parametrize("rows", [4, 5, 16, 33, 128, 500])
@pytest.mark.parametrize(("inner", "outer"), [(256, 768), (256, 1360), (680, 256), (256, 512)])
def test_a_linear_layer_gives_the_same_bits_for_any_company(
    rows: int, inner: int, outer: int
) -> None:
    """The promise of BLAS that models/cantor.py relies on by padding a step to four rows."""
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(outer, inner, generator=generator)
    x = torch.randn(500, inner, generator=generator)
    reference = torch.nn.functional.linear(x, weight)
    assert torch.equal(torch.nn.functional.linear(x[:rows], weight), reference[:rows])
