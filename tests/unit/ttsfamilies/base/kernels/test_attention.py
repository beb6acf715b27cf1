"""Attention over pages and within a frame, and what caches hold, against torch's own in float64."""

import random as random_

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import Version, only
from ttsfamilies.base.kernels import attention
from ttsfamilies.base.kernels.attention import (
    attend,
    attend_frame,
    attend_step,
    prompt_tiles,
    store,
)
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


def expected(q: Tensor, k: Tensor, v: Tensor, sliding_window: int = 0) -> Tensor:
    """The last len(q) positions of a sequence by torch's own attention in float64."""
    count, length = len(q), len(k)
    own = torch.arange(length - count, length)
    visible = torch.arange(length) <= own[:, None]
    visible &= torch.arange(length) > own[:, None] - (sliding_window or length)
    queries, keys, values = (x.double().transpose(0, 1)[None] for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=visible, enable_gqa=True
    )
    return out[0].transpose(0, 1)


TOLERANCE = {torch.float32: 3e-6, torch.float16: 3e-3}


def stepped(
    cache: Paged,
    heads: int,
    version: Version,
    *,
    processors: int = 1,
    sliding_window: int = 0,
) -> None:
    """The last position of each row is a step's; see that it attends, and is stored."""
    lengths, dtype = [len(k) for k, _ in cache.dense], cache.keys.dtype
    g = torch.Generator().manual_seed(1)
    q = torch.randn(len(lengths), heads, cache.keys.shape[2], generator=g).to(dtype)
    k, v = (torch.stack([x[-1] for x in every]) for every in zip(*cache.dense, strict=True))
    keys, values = cache.keys.clone(), cache.values.clone()
    for row, length in enumerate(lengths):
        page = int(cache.tables[row, (length - 1) // BLOCK_POSITIONS])
        for cached in (keys, values):
            cached[page * BLOCK_POSITIONS + (length - 1) % BLOCK_POSITIONS] = NAN
    told = (q, k, v, keys, values, cache.tables, torch.tensor(lengths) - 1)
    with only(version), pytest.MonkeyPatch.context() as device:
        device.setattr(attention, "processors", lambda _: processors)
        out = attend_step(*told, most=300, sliding_window=sliding_window)
    for row, (known, worth) in enumerate(cache.dense):
        wanted = expected(q[row : row + 1], known, worth, sliding_window)[0]
        assert torch.allclose(out[row].double(), wanted, atol=TOLERANCE[dtype])
    assert torch.equal(keys.nan_to_num(), cache.keys.nan_to_num())
    assert torch.equal(values.nan_to_num(), cache.values.nan_to_num())


VERSIONS = pytest.mark.parametrize("version", ["torch", "triton"])


@VERSIONS
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "dtype"),
    [
        (4, 2, 16, torch.float32),
        (4, 4, 24, torch.float32),
        (16, 8, 128, torch.float16),
        (6, 1, 64, torch.float16),
    ],
)
def test_a_decode_step_sees_its_own_row_and_no_unused_position(
    version: Version, heads: int, kv_heads: int, dim: int, dtype: torch.dtype
) -> None:
    stepped(Paged([1, 16, 17, 131], kv_heads, dim, dtype, seed=heads), heads, version)


@VERSIONS
def test_a_token_attends_within_its_reach_however_its_past_is_cut(version: Version) -> None:
    cache = Paged([1, 64, 130, 200], 2, 32, torch.float32, seed=3)
    stepped(cache, 4, version, processors=12, sliding_window=61)


@VERSIONS
@pytest.mark.parametrize(("seed", "sliding_window"), [(0, 0), (1, 9)])
def test_prompts_of_any_length_start_anywhere_and_padding_gives_zeros(
    version: Version, seed: int, sliding_window: int
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
    shape = {"most": 96, "sliding_window": sliding_window}
    with only(version):
        out = attend(q, cache.keys, cache.values, cache.tables, tiles, **shape)
    parts = torch.split(out, [*counts, padding])
    for mine, asked, (k, v) in zip(
        parts, torch.split(q, [*counts, padding]), cache.dense, strict=False
    ):
        assert torch.allclose(mine.double(), expected(asked, k, v, sliding_window), atol=3e-6)
    assert not parts[-1].any()


def test_the_launch_follows_the_bound_that_the_host_knows() -> None:
    from ttsfamilies.base.kernels.steps_triton import parts_for

    assert parts_for(tiles=1, kv_heads=8, most=100, processors=132) == 1
    assert parts_for(tiles=1, kv_heads=8, most=4096, processors=132) == 32
    assert parts_for(tiles=64, kv_heads=8, most=4096, processors=132) == 1
    assert parts_for(tiles=8, kv_heads=8, most=1024, processors=132) == 5
    # A long row is cut however many others there are: all would wait for it.
    assert parts_for(tiles=64, kv_heads=8, most=32_768, processors=132) == 8


POSITIONS = 6


def of_frames() -> list[Tensor]:
    """Queries, keys and values of three rows as they come out of one product: strided."""
    qkv = torch.randn(3, POSITIONS, 8, 16, generator=torch.Generator().manual_seed(4))
    return list(qkv.split((4, 2, 2), 2))


@VERSIONS
def test_positions_of_a_frame_see_those_before_them_and_no_other_row(version: Version) -> None:
    q, k, v = of_frames()
    keys, values = torch.full((2, 3, POSITIONS, 2, 16), NAN)
    found, filled = [], 0
    for new in (2, 1, 1, 1, 1):
        part = slice(filled, filled + new)
        with only(version):
            found.append(attend_frame(q[:, part], k[:, part], v[:, part], keys, values, filled))
        filled += new
    for row, out in enumerate(torch.cat(found, 1)):
        assert (out - expected(q[row], k[row], v[row])).abs().max() < 1e-5
    assert torch.equal(keys, k)
    assert torch.equal(values, v)


@VERSIONS
def test_a_row_of_a_frame_that_is_not_finite_stays_alone(version: Version) -> None:
    q, k, v = of_frames()
    k[1, 2], v[1, 3] = NAN, NAN
    keys, values = torch.full((2, 3, POSITIONS, 2, 16), NAN)
    with only(version):
        out = attend_frame(q, k, v, keys, values, 0)
    assert out[1].isnan().any()
    for row in (0, 2):
        assert (out[row] - expected(q[row], k[row], v[row])).abs().max() < 1e-5


def bits(x: Tensor) -> Tensor:
    return x.view(torch.int16 if x.dtype == torch.bfloat16 else torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_new_tokens_land_in_their_rows_bit_by_bit_and_nothing_else_changes(
    dtype: torch.dtype,
) -> None:
    g = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, 64, 3, 20, generator=g).to(dtype)
    before = keys.clone(), values.clone()
    qkv = torch.randn(7, 12, 20, generator=g).to(dtype)
    qkv[2, :, 5] = NAN
    k, v = qkv[:, 6:9], qkv[:, 9:]  # strided, as they come out of one product
    places = torch.randperm(64, generator=g)[:7]
    store(k, v, keys, values, places)
    for old, new, cached in zip(before, (k, v), (keys, values), strict=True):
        old[places] = new
        assert torch.equal(bits(cached), bits(old))


def test_tokens_of_another_type_are_cast_once() -> None:
    k, v = torch.randn(2, 4, 2, 8, generator=torch.Generator().manual_seed(0))
    keys, values = torch.zeros(2, 10, 2, 8, dtype=torch.bfloat16)
    store(k, v, keys, values, torch.arange(4))
    assert torch.equal(keys[:4], k.bfloat16())
    assert torch.equal(values[:4], v.bfloat16())
