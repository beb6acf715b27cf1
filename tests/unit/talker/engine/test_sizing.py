"""The KV cache by blocks or by bytes, held against the longest request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from talker.engine.sizing import block_bytes, kv_blocks
from talker.family.base import CacheSpec, ModelSpec
from ttscommon.engine.voice import VoiceError
from ttscommon.wire.fields import Field

QWEN = CacheSpec(layers=28, heads=16, kv_heads=8, head_dim=128)
SPEC = ModelSpec(
    *("m", "f", 24_000, 12.5, ()),
    frame={"codes": Field((16,), "i2")},
    caches={"backbone": QWEN},
    max_positions=4096,
)


def test_a_position_of_qwen3_tts_takes_112_kib_in_bfloat16() -> None:
    assert block_bytes({"backbone": QWEN}, 2) == 16 * 112 * 1024


def test_caches_that_advance_together_share_their_blocks() -> None:
    assert block_bytes({"a": QWEN, "b": QWEN}, 2) == 2 * block_bytes({"a": QWEN}, 2)


def test_bytes_decide_where_they_are_given() -> None:
    assert kv_blocks(SPEC, 1024, 1 << 30, 2) == (1 << 30) // (16 * 112 * 1024)
    assert kv_blocks(SPEC, 1024, None, 2) == 1024


def test_bytes_that_do_not_hold_the_longest_request_are_refused_with_what_is_needed() -> None:
    needed = 256 * block_bytes(SPEC.caches, 2)
    assert kv_blocks(SPEC, 1024, needed, 2) == 256
    with pytest.raises(VoiceError, match=f"at least {needed}"):
        kv_blocks(SPEC, 1024, needed - 1, 2)


def test_few_blocks_are_kept_and_a_model_without_cache_does_not_care() -> None:
    assert kv_blocks(SPEC, 64, None, 2) == 64
    assert kv_blocks(replace(SPEC, caches={}), 1024, 1, 2) == 1024
