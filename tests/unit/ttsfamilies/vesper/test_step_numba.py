"""A compiled step's way through the blocks, against the net's own."""

from __future__ import annotations

import torch

from tests.unit.ttsfamilies.base.runners.test_kv import part
from tests.unit.ttsfamilies.vesper.rounded import round_products
from tests.unit.ttsfamilies.vesper.test_chain_numba import POSITIONS, net
from ttsfamilies.base.runners.kv import AttendsByQuery, PagedCache
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.vesper.drafts import Drafts

TOKENS, BLOCKS = 39, [2, 0, 1]
TOLERANCE = 2e-3
"""Of numbers up to 8, with weights that make softmaxes steep: where sums differ by a last bit, a
number may be rounded to the next whole one.
"""


@torch.inference_mode()
def test_positions_go_through_the_blocks_as_in_torch() -> None:
    voice, g = net(), torch.Generator().manual_seed(0)
    c = voice.config
    spec, rows = CacheSpec(c.layers, c.heads, c.heads, c.head_dim), [part(BLOCKS, 0, TOKENS)]
    x, positions = torch.randn(TOKENS, c.dim, generator=g), torch.arange(TOKENS)
    plain, compiled = PagedCache(spec, 3), PagedCache(spec, 3)
    attending = compiled.attend(rows)
    assert isinstance(attending, AttendsByQuery)
    hidden = Drafts(voice, POSITIONS).hidden(x, positions, attending.cached)
    round_products(voice, narrow=True)
    expected = voice.backbone(x, positions, plain.attend(rows))
    assert torch.allclose(torch.from_numpy(hidden), expected, atol=TOLERANCE)
    assert torch.allclose(compiled.keys, plain.keys, atol=TOLERANCE)
    assert torch.allclose(compiled.values, plain.values, atol=TOLERANCE)
    assert compiled.keys.any()


@torch.inference_mode()
def test_a_position_has_the_bits_that_it_has_beside_others() -> None:
    voice, g = net(), torch.Generator().manual_seed(1)
    c = voice.config
    spec, drafts = CacheSpec(c.layers, c.heads, c.heads, c.head_dim), Drafts(voice, POSITIONS)
    x, positions = torch.randn(TOKENS, c.dim, generator=g), torch.arange(TOKENS)
    whole, single = PagedCache(spec, 3), PagedCache(spec, 3)
    together = whole.attend([part(BLOCKS, 0, TOKENS)])
    assert isinstance(together, AttendsByQuery)
    expected = drafts.hidden(x, positions, together.cached)
    for at in range(TOKENS):
        alone = single.attend([part(BLOCKS, at, at + 1)])
        assert isinstance(alone, AttendsByQuery)
        found = drafts.hidden(x[at : at + 1], positions[at : at + 1], alone.cached)
        assert (found == expected[at : at + 1]).all(), at
