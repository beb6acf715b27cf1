"""Attention over pages: the kernel against its twin, the twin against torch's own."""

from __future__ import annotations

import random as random_

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import only
from ttsfamilies.base.kernels.attention import TILE_QUERIES, attend, decode_tiles, prompt_tiles
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, blocks_for

triton = pytest.importorskip("triton")

# float16 stands for bfloat16, whose products Triton's interpreter cannot compute.
NAN = float("nan")


class Paged:
    """A cache whose every position that no row owns is NaN, and the same rows side by side."""

    def __init__(
        self, lengths: list[int], kv_heads: int, dim: int, dtype: torch.dtype, seed: int
    ) -> None:
        g = torch.Generator().manual_seed(seed)
        blocks = [blocks_for(length) for length in lengths]
        order = torch.randperm(sum(blocks) + 3, generator=g)
        rows = len(order) * BLOCK_POSITIONS
        self.keys = torch.full((rows, kv_heads, dim), NAN, dtype=dtype)
        self.values = torch.full((rows, kv_heads, dim), NAN, dtype=dtype)
        self.tables = torch.full((len(lengths), max(blocks)), int(order[-1]), dtype=torch.int32)
        self.dense: list[tuple[Tensor, Tensor]] = []
        taken = 0
        for row, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
            owned = order[taken : taken + count]
            taken += count
            self.tables[row, :count] = owned
            at = torch.arange(length)
            places = owned[at // BLOCK_POSITIONS] * BLOCK_POSITIONS + at % BLOCK_POSITIONS
            k = torch.randn(length, kv_heads, dim, generator=g).to(dtype)
            v = torch.randn(length, kv_heads, dim, generator=g).to(dtype)
            self.keys[places], self.values[places] = k, v
            self.dense.append((k, v))


def expected(q: Tensor, k: Tensor, v: Tensor, reach: int = 0) -> Tensor:
    """The last len(q) positions of a sequence by torch's own attention in float64."""
    count, length = len(q), len(k)
    own = torch.arange(length - count, length)
    visible = torch.arange(length) <= own[:, None]
    visible &= torch.arange(length) > own[:, None] - (reach or length)
    queries, keys, values = (x.double().transpose(0, 1)[None] for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=visible, enable_gqa=True
    )
    return out[0].transpose(0, 1)


TOLERANCE = {torch.float32: 3e-6, torch.float16: 3e-3}


@pytest.mark.parametrize("version", ["torch", "triton"])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "dtype"),
    [
        (4, 2, 16, torch.float32),
        (4, 4, 24, torch.float32),
        (16, 8, 128, torch.float16),
        (6, 1, 64, torch.float16),
        (32, 8, 128, torch.float16),
    ],
)
def test_a_decode_step_sees_its_own_row_and_no_unused_position(
    version: str, heads: int, kv_heads: int, dim: int, dtype: torch.dtype
) -> None:
    lengths = [1, 16, 17, 131]
    cache = Paged(lengths, kv_heads, dim, dtype, seed=heads)
    q = torch.randn(len(lengths), heads, dim, generator=torch.Generator().manual_seed(1)).to(dtype)
    tiles = decode_tiles(torch.tensor(lengths) - 1)
    with only(version):  # type: ignore[arg-type]
        out = attend(q, cache.keys, cache.values, cache.tables, tiles, queries=1, most=140)
    for row, (k, v) in enumerate(cache.dense):
        assert torch.allclose(
            out[row].double(), expected(q[row : row + 1], k, v)[0], atol=TOLERANCE[dtype]
        )


@pytest.mark.parametrize("parts", [2, 5])
def test_a_long_past_is_cut_into_parts_and_combined(parts: int) -> None:
    from ttsfamilies.base.kernels import attention_triton

    lengths = [1, 64, 65, 200]
    cache = Paged(lengths, 2, 32, torch.float32, seed=parts)
    q = torch.randn(4, 4, 32, generator=torch.Generator().manual_seed(1))
    tiles = decode_tiles(torch.tensor(lengths) - 1)
    tables = torch.nn.functional.pad(cache.tables, (0, 32))
    shape = {"queries": 1, "page": BLOCK_POSITIONS}
    out = attention_triton.attend(q, cache.keys, cache.values, tables, tiles, parts=parts, **shape)
    for row, (k, v) in enumerate(cache.dense):
        assert torch.allclose(out[row].double(), expected(q[row : row + 1], k, v)[0], atol=3e-6)


def test_rows_of_any_length_beside_a_long_one_each_have_their_own_past_cut() -> None:
    from ttsfamilies.base.kernels import attention_triton

    lengths = [1, 40, 1500, 300]
    cache = Paged(lengths, 8, 16, torch.float32, seed=2)
    q = torch.randn(4, 32, 16, generator=torch.Generator().manual_seed(1))
    tiles = decode_tiles(torch.tensor(lengths) - 1)
    told = (q, cache.keys, cache.values, cache.tables, tiles)
    out = attention_triton.attend(*told, queries=1, page=BLOCK_POSITIONS, parts=8)
    with only("torch"):
        plain = attend(*told, queries=1, most=1504)
    for row, (k, v) in enumerate(cache.dense):
        wanted = expected(q[row : row + 1], k, v)[0]
        for found in (out, plain):
            assert torch.allclose(found[row].double(), wanted, atol=3e-6)


def test_a_token_attends_within_its_reach_however_its_past_is_cut() -> None:
    from ttsfamilies.base.kernels import attention_triton

    lengths = [1, 64, 130, 200]
    cache = Paged(lengths, 2, 32, torch.float32, seed=3)
    q = torch.randn(4, 4, 32, generator=torch.Generator().manual_seed(1))
    tiles = decode_tiles(torch.tensor(lengths) - 1)
    told = (q, cache.keys, cache.values, cache.tables, tiles)
    page = BLOCK_POSITIONS
    found = attention_triton.attend(*told, queries=1, page=page, parts=3, reach=61)
    with only("torch"):
        plain = attend(*told, queries=1, most=208, reach=61)
    for row, (k, v) in enumerate(cache.dense):
        wanted = expected(q[row : row + 1], k, v, 61)[0]
        for out in (found, plain):
            assert torch.allclose(out[row].double(), wanted, atol=3e-6)


@pytest.mark.parametrize("version", ["torch", "triton"])
@pytest.mark.parametrize(("seed", "reach"), [(0, 0), (1, 9)])
def test_prompts_of_any_length_start_anywhere_and_padding_gives_zeros(
    version: str, seed: int, reach: int
) -> None:
    numbers = random_.Random(seed)
    lengths = [numbers.randint(1, 70) for _ in range(3)]
    counts = [numbers.randint(1, length) for length in lengths]
    cache = Paged(lengths, 2, 16, torch.float32, seed)
    padding = 5
    q = torch.randn(sum(counts) + padding, 4, 16, generator=torch.Generator().manual_seed(seed))
    starts = [length - count for length, count in zip(lengths, counts, strict=True)]
    flat = [*prompt_tiles(starts, counts), 0, 0, 0, 0]
    tiles = torch.tensor(flat, dtype=torch.int32).view(-1, 4)
    shape = {"queries": TILE_QUERIES, "most": 96, "reach": reach}
    with only(version):  # type: ignore[arg-type]
        out = attend(q, cache.keys, cache.values, cache.tables, tiles, **shape)
    parts = torch.split(out, [*counts, padding])
    for mine, asked, (k, v) in zip(
        parts, torch.split(q, [*counts, padding]), cache.dense, strict=False
    ):
        assert torch.allclose(mine.double(), expected(asked, k, v, reach), atol=3e-6)
    assert not parts[-1].any()


def test_the_launch_follows_the_bound_that_the_host_knows() -> None:
    from ttsfamilies.base.kernels.attention_triton import parts_for

    assert parts_for(tiles=1, kv_heads=8, most=100, processors=132) == 1
    assert parts_for(tiles=1, kv_heads=8, most=4096, processors=132) == 32
    assert parts_for(tiles=64, kv_heads=8, most=4096, processors=132) == 1
    assert parts_for(tiles=8, kv_heads=8, most=1024, processors=132) == 5
    # A long row is cut however many others there are: all would wait for it.
    assert parts_for(tiles=64, kv_heads=8, most=32_768, processors=132) == 8


def test_tiles_of_prompts_are_consecutive_tokens_of_one_row() -> None:
    assert prompt_tiles([0, 7], [3, 5], queries=4) == [0, 0, 3, 0, 1, 3, 4, 7, 1, 7, 1, 11]
