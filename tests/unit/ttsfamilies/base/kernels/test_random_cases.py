"""The talker's kernels against their twins over shapes, batches and settings drawn anew."""

from functools import partial
from random import Random
from unittest.mock import patch

import pytest
import torch
from torch import Generator, Tensor

from tests.random_cases import cases, drawn
from tests.unit.ttsfamilies.base.kernels.test_attention import Paged
from ttscommon.engine.kernels.blocks import HeadRotation, add_norm, rotate, swiglu
from ttscommon.engine.kernels.choice import only
from ttscommon.engine.nn.rope import Rope, RopeConfig
from ttsfamilies.base.kernels import attention
from ttsfamilies.base.kernels.attention import (
    attend,
    attend_frame,
    attend_step,
    prompt_tiles,
    rotate_store,
)
from ttsfamilies.base.kernels.slots import NUMBERS, REALS, embed_codes, move_on, next_text, settings
from ttsfamilies.base.sampling import Noise, Rules, Settings, draw_ids
from ttsfamilies.base.sampling.draw import sample

pytest.importorskip("triton")

# A sum of two logarithms may differ in its last bits between two machines' libraries.
_NEAR = 2e-5


def settings_of(r: Random, rows: int, vocabulary: int) -> Settings:
    top_k = torch.tensor([r.choice((0, 1, 3, 50, vocabulary)) for _ in range(rows)])
    top_p = torch.tensor([r.choice((0.05, 0.5, 0.8, 1.0)) for _ in range(rows)])
    return Settings(
        torch.tensor([r.choice((0.0, 0.3, 0.9, 2.0)) for _ in range(rows)]),
        top_k if r.random() < 0.7 else None,
        top_p if r.random() < 0.7 else None,
    )


def rules_of(r: Random, g: Generator, rows: int, vocabulary: int) -> Rules:
    return Rules(
        seen=torch.rand(rows, vocabulary, generator=g) < 0.3,
        penalty=torch.tensor([r.choice((1.0, 1.3)) for _ in range(rows)]),
        made=torch.randint(0, 4, (rows,), generator=g),
        suppressed=torch.arange(vocabulary) >= vocabulary - vocabulary // 3,
        end=r.randrange(vocabulary),
        least_frames=2,
    )


def near(logits: Tensor, told: Settings, row: int, ids: tuple[int, int], noise: Tensor) -> bool:
    """Whether a row may draw either: their sums with the noise are one but for last bits, or the
    edge of the nucleus is.
    """
    x, temperature = logits[row].double(), float(told.temperature[row])
    noisy = x + noise[row].double() * temperature
    if abs(float(noisy[ids[0]] - noisy[ids[1]])) < _NEAR * max(1.0, temperature):
        return True
    if told.top_p is None or temperature == 0.0:
        return False
    if told.top_k is not None and 0 < told.top_k[row] < len(x):
        least = x.sort(descending=True).values[int(told.top_k[row]) - 1]
        x = x.masked_fill(x < least, float("-inf"))
    held = (x.sort().values / temperature).softmax(-1).cumsum(-1)
    return bool(((held - (1 - float(told.top_p[row]))).abs() < _NEAR).any())


@drawn(10)
def test_draws(count: int) -> None:
    """Round logits, zeros of both signs among them, tie at every edge."""
    for r, g in cases(count):
        rows, vocabulary = r.randint(1, 3), r.choice((2, 7, 30, 257, 1000, 3072))
        logits = r.choice((1.0, 3.0)) * torch.randn(rows, vocabulary, generator=g)
        if r.random() < 0.5:
            logits = logits.round()
        logits = logits.to(r.choice((torch.float32, torch.bfloat16)))
        told = settings_of(r, rows, vocabulary)
        rules = rules_of(r, g, rows, vocabulary) if r.random() < 0.5 else None
        random = Noise(torch.randint(0, 2**62, (rows,), generator=g), torch.arange(rows))
        draw = r.choice((-1, 0, 7))
        twin, finite = sample(logits, random, draw, told, rules)
        with only("triton"):
            ids, known = draw_ids(logits, random, draw, told, rules)
        assert known.tolist() == finite.tolist()
        exact = logits.float() if rules is None else rules.applied(logits.float())
        noise = random.gumbel(draw, vocabulary)
        for row, pair in enumerate(zip(ids.tolist(), twin.tolist(), strict=True)):
            assert pair[0] == pair[1] or near(exact, told, row, pair, noise), (row, pair)


def test_both_zeros_are_one_at_the_edge_of_the_nucleus() -> None:
    """One below the other, the ids of the lesser were left out by the kernel alone."""
    logits = torch.tensor([[0.0, -0.0] * 4]).repeat(12, 1)
    random = Noise(torch.arange(12), torch.zeros(12, dtype=torch.int64))
    told = Settings(torch.full((12,), 2.0), torch.full((12,), 3), torch.full((12,), 0.5))
    twin, _ = sample(logits, random, 0, told)
    with only("triton"):
        ids, _ = draw_ids(logits, random, 0, told)
    assert ids.tolist() == twin.tolist()
    assert set((twin % 2).tolist()) == {0, 1}


@drawn(2)
def test_attention_of_steps(count: int) -> None:
    """Past cut as the device's processors ask for, norm and rotation with it or done before."""
    for r, g in cases(count):
        kv_heads, dim = r.choice((1, 2, 3)), r.choice((16, 24, 64))
        heads, lengths = kv_heads * r.choice((1, 2, 4)), [r.randint(1, 300) for _ in range(3)]
        cache = Paged(lengths, kv_heads, dim, torch.float32, r.randrange(1 << 31))
        product = torch.randn(3, heads + 2 * kv_heads, dim, generator=g)
        angles = torch.randn(r.choice((1, 3)), dim // 2, generator=g)
        weights = torch.rand(2, dim, generator=g) if r.random() < 0.5 else (None, None)
        turned = HeadRotation((heads, kv_heads, kv_heads), angles.cos(), angles.sin(), *weights)
        rotation = turned if r.random() < 0.7 else None
        processors, sliding_window = r.choice((1, 8, 132)), r.choice((0, 0, 5, 40))
        found = list[Tensor]()
        for version in ("torch", "triton"):
            keys, values = cache.keys.clone(), cache.values.clone()
            told = *turned.parts(product), keys, values, cache.tables, torch.tensor(lengths) - 1
            with only(version), patch.object(attention, "processors", lambda _, n=processors: n):
                out = attend_step(*told, most=304, sliding_window=sliding_window, rotation=rotation)
            found.append(torch.cat([x.flatten() for x in (out, keys, values)]))
        plain, fused = found
        assert torch.allclose(fused, plain, atol=5e-6, equal_nan=True), (heads, dim, lengths)


@drawn(2)
def test_attention_of_prompts(count: int) -> None:
    for r, g in cases(count):
        kv_heads, dim = r.choice((1, 2, 3)), r.choice((16, 24, 64))
        heads, lengths = kv_heads * r.choice((1, 2, 4)), [r.randint(1, 90) for _ in range(3)]
        counts, sliding_window = (
            [r.randint(1, length) for length in lengths],
            r.choice((0, 0, 5, 40)),
        )
        cache = Paged(lengths, kv_heads, dim, torch.float32, r.randrange(1 << 31))
        q = torch.randn(sum(counts), heads, dim, generator=g)
        starts = [length - count for length, count in zip(lengths, counts, strict=True)]
        tiles = torch.tensor(prompt_tiles(starts, counts)).view(-1, 4).int()
        told = (q, cache.keys, cache.values, cache.tables, tiles)
        how = partial(attend, *told, most=96, sliding_window=sliding_window)
        with only("torch"):
            plain = how()
        with only("triton"):
            fused = how()
        assert torch.allclose(fused, plain, atol=5e-6), (heads, kv_heads, dim, lengths, how)


@drawn(2)
def test_attention_within_a_frame(count: int) -> None:
    for r, g in cases(count):
        rows, new, filled = r.randint(1, 4), r.choice((1, 1, 2)), r.randint(0, 6)
        kv_heads, group, dim = r.choice((1, 2, 3)), r.choice((1, 2, 4)), r.choice((8, 16, 24))
        heads, positions = kv_heads * group, filled + new + r.randint(0, 2)
        q = torch.randn(rows, new, heads, dim, generator=g)
        k, v = torch.randn(2, rows, new, kv_heads, dim, generator=g)
        kept = torch.randn(2, rows, positions, kv_heads, dim, generator=g)
        angles = torch.randn(new, dim // 2, generator=g)
        weights = torch.rand(2, dim, generator=g) if r.random() < 0.5 else (None, None)
        shares = (heads, kv_heads, kv_heads)
        turned = HeadRotation(shares, angles.cos(), angles.sin(), *weights)
        rotation = turned if r.random() < 0.7 else None
        found = list[Tensor]()
        for version in ("torch", "triton"):
            keys, values = kept.clone()
            with only(version):
                out = attend_frame(q, k, v, keys, values, filled, rotation)
            found.append(torch.cat([x.flatten() for x in (out, keys, values)]))
        plain, fused = found
        assert torch.allclose(fused, plain, atol=5e-6), (rows, new, filled, heads, kv_heads, dim)


def slots_of(r: Random, g: Generator, count: int, vocabulary: int) -> dict[str, Tensor]:
    """A state whose fields lie side by side, as a device holds them."""
    words = torch.zeros(count, 64 + vocabulary // 8, dtype=torch.int64)
    state = {name: words[:, n] for n, name in enumerate((*NUMBERS, "told", "known", "complete"))}
    for number in state.values():
        number.copy_(torch.randint(0, 9, (count,), generator=g))
    state["over"] = words[:, 8].copy_(torch.randint(0, 2, (count,), generator=g))
    for n, name in enumerate(REALS, 9):
        state[name] = words.view(torch.float32)[:, 2 * n].copy_(torch.rand(count, generator=g))
    state["codes"] = words[:, 16 : 16 + r.randint(2, 5)].random_(0, 3, generator=g)
    state["text"] = words.view(torch.int32)[:, 48:55].random_(0, 99, generator=g)
    state["seen"] = words.view(torch.uint8)[:, 256 : 256 + vocabulary].random_(0, 2, generator=g)
    return state


@drawn(2)
def test_slots_of_a_step(count: int) -> None:
    """What a step reads of its rows' slots, and leaves there."""
    for r, g in cases(count):
        many, vocabulary, dim = r.randint(2, 6), r.choice((3, 40, 100)), r.choice((8, 600))
        state, pad = slots_of(r, g, many, vocabulary), r.randrange(99)
        rows = r.randint(1, many)
        slots = torch.randperm(many, generator=g)[:rows]
        codebooks = state["codes"].shape[1]
        dtype = r.choice((torch.float32, torch.bfloat16))
        first, others = (torch.randn(3 * n, dim, generator=g).to(dtype) for n in (1, codebooks - 1))
        logits = torch.randn(rows, vocabulary, generator=g)
        logits[0, -1] = r.choice((0.0, float("inf"), float("nan")))
        codes = torch.randint(0, min(3, vocabulary), (rows, codebooks), generator=g)
        samples, real = torch.rand(rows, generator=g) < 0.7, r.randint(1, rows)
        found = list[list[Tensor]]()
        for version in ("torch", "triton"):
            own = {name: tensor.clone() for name, tensor in state.items()}
            with only(version):
                text, use = next_text(own, slots, pad)
                heard = [embed_codes(own["codes"], first, others, of) for of in (slots, None)]
                told = settings(own, slots)
                moved = move_on(own, slots, real, use, samples, logits, codes, 1)
            exact = text, use, *(told[name] for name in sorted(told)), *moved, *own.values()
            found.append([*heard, *exact])
        close = 2e-2 if dtype == torch.bfloat16 else 5e-6
        for n, (one, other) in enumerate(zip(*found, strict=True)):
            off = close if n < 2 else 0.0
            torch.testing.assert_close(one, other, rtol=off, atol=off)


@drawn(4)
def test_rotation_with_store(count: int) -> None:
    for r, g in cases(count):
        kv_heads, dim, many = r.choice((1, 2, 3)), r.choice((8, 20, 64)), r.randint(1, 7)
        heads = kv_heads * r.choice((1, 2, 4))
        product = torch.randn(many, heads + 2 * kv_heads, dim, generator=g)
        angles = 5 * torch.rand(r.choice((1, many)), dim // 2, generator=g)
        weights = torch.rand(2, dim, generator=g) if r.random() < 0.5 else (None, None)
        turned = HeadRotation((heads, kv_heads, kv_heads), angles.cos(), angles.sin(), *weights)
        places, found = torch.randperm(30, generator=g)[:many], list[Tensor]()
        for version in ("torch", "triton"):
            keys, values = torch.full((2, 30, kv_heads, dim), float("nan"))
            with only(version):
                queries = rotate_store(product, turned, keys, values, places)
            assert int(keys.isnan().all(-1).all(-1).sum()) == 30 - many, "others stay as they are"
            found.append(torch.cat([x.flatten() for x in (queries, keys, values)]))
        plain, fused = found
        assert torch.allclose(fused, plain, atol=2e-6, equal_nan=True), (heads, kv_heads, dim)


@drawn(6)
def test_parts_of_a_block(count: int) -> None:
    for r, g in cases(count):
        rows, size, heads = r.randint(1, 5), r.choice((6, 48, 100)), r.randint(1, 4)
        dim, dtype = r.choice((8, 24, 64)), r.choice((torch.float32, torch.bfloat16))
        x, added = torch.randn(2, rows, size, generator=g).to(dtype)
        weight = torch.rand(size, generator=g).to(dtype)
        more = r.choice((None, added))
        scale = torch.rand(size, generator=g).to(dtype) if more is not None else None
        spread = torch.randn(rows, heads, dim, generator=g).to(dtype)
        angles = torch.randn(r.choice((1, rows)), dim // 2, generator=g)
        theta, positions = r.choice((1e4, 1e6)), torch.randint(0, 32768, (rows, 2), generator=g)
        found = list[Tensor]()
        for version in ("torch", "triton"):
            with only(version):
                parts = (
                    *add_norm(x, more, weight, 1e-6, scale),
                    swiglu(x),
                    rotate(spread, angles.cos(), angles.sin()),
                    *Rope(dim, RopeConfig(theta)).angles(positions),
                )
            found.append(torch.cat([part.float().flatten() for part in parts]))
        close = 2e-2 if dtype == torch.bfloat16 else 5e-6
        plain, fused = found
        assert torch.allclose(fused, plain, rtol=close, atol=close), (rows, size, dim, dtype)
