"""Attention of a processor that turns pairs itself, against rotation and attention apart.

Of what it gives for queries that are turned already, see runners/test_kv.py.
"""

from __future__ import annotations

import torch

from tests.unit.ttsfamilies.base.runners.test_kv import part
from ttscommon.engine.nn import TurnsPairs, apply_rope, rope_table
from ttsfamilies.base.runners.kv import PagedCache
from ttsfamilies.base.talker.base import CacheSpec


def test_a_product_is_turned_and_stored_on_the_way() -> None:
    spec = CacheSpec(2, 4, 4, 16)
    g = torch.Generator().manual_seed(0)
    heads = torch.randn(40, 12, 16, generator=g)
    cosines, sines = (table[:40] for table in rope_table(40, 16))
    rows = [part([2, 0, 1], 0, 39)]
    apart, fused = PagedCache(spec, 3), PagedCache(spec, 3)
    with torch.no_grad():
        q, k, v = heads.split(4, -2)
        q, k = (apply_rope(x, cosines, sines) for x in (q, k))
        expected = apart.attend(rows)(1, q, k, v)
        turning: object = fused.attend(rows)
        assert isinstance(turning, TurnsPairs)
        out = turning.of_pairs(1, heads, cosines, sines)
    assert torch.allclose(out, expected, atol=1e-6)
    assert not out[39:].any()
    assert torch.allclose(fused.keys, apart.keys, atol=1e-6)
    assert torch.equal(fused.values, apart.values)
