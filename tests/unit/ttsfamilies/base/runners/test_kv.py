"""Paged attention: equal to plain attention, and the same bits however it is cut and batched."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from ttsfamilies.base.runners.kv import PagedCache
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, BlockAllocator
from ttsfamilies.base.talker.streams import Plan, Row

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
LENGTH = 400
# Heads, KV heads and their size, as published: Qwen3-TTS, Llama 3.2 3B and 3.1 8B; and two between.
PUBLISHED = [(16, 8, 128), (16, 2, 128), (24, 8, 128), (32, 8, 128), (14, 2, 64), (12, 12, 64)]
WIDER = [(24, 8, 128), (32, 8, 128)]  # than what `make test` tries
# What other processors offer, by the variables of torch's own kernels, of MKL and of oneDNN.
CAPPED = {
    "avx2": ("avx2", "AVX2", "AVX2"),
    "avx2 under avx512": ("avx512", "AVX2", "AVX2"),
    "plain kernels of torch": ("default", "AVX512", "SSE41"),
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def tokens(spec: CacheSpec, length: int, seed: int = 0) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(length, spec.heads, spec.head_dim, generator=generator)
    k = torch.randn(length, spec.kv_heads, spec.head_dim, generator=generator)
    v = torch.randn(length, spec.kv_heads, spec.head_dim, generator=generator)
    return q, k, v


def part(table: list[int], start: int, stop: int, slot: int = 0) -> Row:
    return Row(None, slot, Plan(start, stop - start), list(table))  # type: ignore[arg-type]


def run(cache: PagedCache, rows: list[Row], qkv: list[Tensors]) -> list[torch.Tensor]:
    cut = [[x[r.plan.start : r.plan.end] for x in t] for r, t in zip(rows, qkv, strict=True)]
    q, k, v = (torch.cat(column) for column in zip(*cut, strict=True))
    out = cache.attend(rows)(0, q, k, v)
    return list(out.split([r.plan.count for r in rows]))


@pytest.mark.parametrize(
    "spec",
    [CacheSpec(1, 4, 4, 64), CacheSpec(1, 4, 2, 32), CacheSpec(1, 16, 8, 128)],
    ids=["multi-head", "grouped", "wide"],
)
@pytest.mark.parametrize("sliding_window", [0, 1, 37])
def test_a_prefill_equals_plain_causal_attention(spec: CacheSpec, sliding_window: int) -> None:
    spec = replace(spec, sliding_window=sliding_window)
    q, k, v = tokens(spec, 200)
    (out,) = run(PagedCache(spec, 13), [part(list(range(13)), 0, 200)], [(q, k, v)])
    group = spec.heads // spec.kv_heads
    keys, values = (x.repeat_interleave(group, 1).transpose(0, 1)[None] for x in (k, v))
    age = torch.arange(200)[:, None] - torch.arange(200)
    visible = (age >= 0) & (age < (sliding_window or 200))
    reference = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1)[None], keys, values, attn_mask=visible
    )
    assert torch.allclose(out, reference[0].transpose(0, 1), atol=1e-5)


@pytest.mark.parametrize(
    "spec",
    [
        CacheSpec(1, 4, 4, 64),
        CacheSpec(1, 8, 4, 32),
        CacheSpec(1, 4, 2, 8),
        CacheSpec(1, 4, 2, 8, sliding_window=43),
        *(
            pytest.param(CacheSpec(1, *shape), marks=[pytest.mark.slow] * (shape in WIDER))
            for shape in PUBLISHED
        ),
    ],
    ids=[
        "multi-head",
        "grouped",
        "narrow",
        "near",
        *("/".join(map(str, shape)) for shape in PUBLISHED),
    ],
)
def test_decode_prefill_and_company_give_the_same_bits(spec: CacheSpec) -> None:
    """What a takeover needs: a prefill of everything equals having decoded it one by one."""
    blocks = 2 * LENGTH // BLOCK_POSITIONS + 2
    mine, theirs = tokens(spec, LENGTH), tokens(spec, LENGTH, seed=1)
    allocator = BlockAllocator(blocks)
    allocator.reserve("whole", LENGTH)
    whole = part(list(allocator.table("whole")), 0, LENGTH)
    (reference,) = run(PagedCache(spec, blocks), [whole], [mine])
    allocator.give_back(allocator.take("whole"))

    cache = PagedCache(spec, blocks)
    allocator.reserve("a", 40)
    for start, stop in ((0, 7), (7, 8), (8, 33), (33, 40)):  # a prompt that was cut
        cut = part(list(allocator.table("a")), start, stop)
        assert torch.equal(run(cache, [cut], [mine])[0], reference[start:stop])
    for position in range(40, LENGTH):
        allocator.reserve("a", position + 1)
        rows, inputs = [part(list(allocator.table("a")), position, position + 1)], [mine]
        if position % 3 == 0:  # sometimes alone, sometimes with a neighbour of another length
            at = position // 3
            allocator.reserve("b", at + 1)
            rows.append(part(list(allocator.table("b")), at, at + 1, slot=1))
            inputs.append(theirs)
        out = run(cache, rows, inputs)[0]
        assert torch.equal(out[0], reference[position]), position


@pytest.mark.slow
@pytest.mark.parametrize("cap", CAPPED)
def test_the_same_holds_with_fewer_vector_instructions(cap: str) -> None:
    """Libraries choose their instructions when they load, so each cap has a process of its own."""
    aten, mkl, onednn = CAPPED[cap]
    told = {
        "ATEN_CPU_CAPABILITY": aten,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "ONEDNN_MAX_CPU_ISA": onednn,
    }
    held = "test_decode_prefill or test_a_linear_layer"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", __file__, "-k", held]
    done = subprocess.run(
        command, env=os.environ | told, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout


def test_what_a_block_held_before_is_never_seen() -> None:
    spec = CacheSpec(2, 4, 4, 32)
    mine = tokens(spec, 40)
    (clean,) = run(PagedCache(spec, 4), [part([3, 1, 2], 0, 37)], [mine])
    poisoned = PagedCache(spec, 4)
    poisoned.keys.fill_(math.nan)
    poisoned.values[:, :, : poisoned.width] = math.nan
    (prompt,) = run(poisoned, [part([3, 1, 2], 0, 20)], [mine])
    assert torch.equal(prompt, clean[:20])
    for position in range(20, 37):
        (step,) = run(poisoned, [part([3, 1, 2], position, position + 1)], [mine])
        assert torch.equal(step[0], clean[position]), position


def test_padding_stores_nothing_and_gives_zeros() -> None:
    spec = CacheSpec(1, 4, 4, 32)
    cache = PagedCache(spec, 2)
    q, k, v = tokens(spec, 4)
    out = cache.attend([part([1], 0, 2)])(0, q, k, v)
    assert out[:2].isfinite().all()
    assert not out[2:].any()
    stored = cache.keys[0].abs().sum(-1).nonzero()[:, 0].tolist()
    assert stored == [BLOCK_POSITIONS, BLOCK_POSITIONS + 1]


@pytest.mark.parametrize("rows", [4, 5, 7, 11, 16, 33, 51, 128, 500])
@pytest.mark.parametrize(("inner", "outer"), [(256, 768), (256, 1360), (680, 256), (256, 512)])
def test_a_linear_layer_gives_the_same_bits_for_any_company(
    rows: int, inner: int, outer: int
) -> None:
    """The promise of BLAS that engine/torch_runner.py relies on by padding to four rows."""
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(outer, inner, generator=generator)
    x = torch.randn(500, inner, generator=generator)
    reference = torch.nn.functional.linear(x, weight)
    assert torch.equal(torch.nn.functional.linear(x[:rows], weight), reference[:rows])


def test_heads_that_need_a_compiler_are_multiplied_by_torch_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = CacheSpec(1, 16, 16, 64)
    assert PagedCache(spec, 1).by_query
    monkeypatch.setattr("ttsfamilies.base.runners.kv.compiles", lambda: False)
    assert not PagedCache(spec, 1).by_query
