"""The KV cache by blocks or by bytes, held against the longest request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from talker.engine.sizing import Memory, block_bytes, kv_blocks
from ttscommon.wire.errors import VoiceError
from ttscommon.wire.fields import Field
from ttsfamilies.base.talker.base import CacheSpec, ModelSpec

QWEN = CacheSpec(layers=28, heads=16, kv_heads=8, head_dim=128)
SPEC = ModelSpec(
    *("m", "f", 24_000, 12.5, ()),
    frame={"codes": Field((16,), "i2")},
    caches={"backbone": QWEN},
    max_positions=4096,
)
BLOCK = block_bytes(SPEC.caches, 2)


def test_a_block_has_16_positions_of_all_caches_of_a_model() -> None:
    assert BLOCK == 16 * 112 * 1024
    assert block_bytes({"a": QWEN, "b": QWEN}, 2) == 2 * BLOCK


@pytest.mark.parametrize(
    ("memory", "slots", "blocks"),
    [
        (Memory(1024, 1 << 30), 4, (1 << 30) // BLOCK),  # bytes count first
        (Memory(1024), 4, 1024),
        (Memory(64), 4, 64),
        (Memory(), 4, 1024),
        (Memory(free=100 * 256 * BLOCK), 256, 80 * 256),  # most of a device's free memory
        (Memory(512, free=100 * 256 * BLOCK), 256, 512),
        (Memory(free=1 << 40), 8, 8 * 256),  # no more than all slots can use
    ],
)
def test_settings_or_free_memory_decide_how_many_blocks_there_are(
    memory: Memory, slots: int, blocks: int
) -> None:
    assert kv_blocks(SPEC, memory, slots, 2) == blocks


def test_a_model_without_cache_does_not_care() -> None:
    assert kv_blocks(replace(SPEC, caches={}), Memory(1024, 1), 4, 2) == 1024


def test_a_device_that_is_almost_full_is_refused_with_what_is_needed() -> None:
    with pytest.raises(VoiceError, match="free memory"):
        kv_blocks(SPEC, Memory(free=100 << 20), 4, 2)


def test_more_slots_than_blocks_are_refused_and_a_short_share_is_warned_of() -> None:
    with pytest.raises(VoiceError, match="ANTIPHON_SLOTS=2048"):
        kv_blocks(SPEC, Memory(1024), 2048, 2)
    with capture_logs() as logs:
        kv_blocks(SPEC, Memory(1024), 256, 2)
    assert [one["event"] for one in logs] == ["kv.sized", "kv.crowded"]
    stated = logs[0]
    assert (stated["blocks"], stated["mib"], stated["positions"]) == (1024, 1792, 16_384)
    assert stated["positions_a_stream"] == 64


def test_bytes_that_do_not_hold_the_longest_request_are_refused_with_what_is_needed() -> None:
    needed = 256 * BLOCK
    assert kv_blocks(SPEC, Memory(1024, needed), 4, 2) == 256
    with pytest.raises(VoiceError, match=f"at least {needed}"):
        kv_blocks(SPEC, Memory(1024, needed - 1), 4, 2)


def test_a_model_of_long_contexts_is_served_with_fewer_positions_and_a_warning() -> None:
    long = replace(SPEC, max_positions=32_768)
    needed = 512 * BLOCK
    with capture_logs() as logs:
        assert kv_blocks(long, Memory(1024, needed), 4, 2) == 512
    short = [line for line in logs if line["event"] == "kv.short"]
    assert [(line["positions"], line["longest"]) for line in short] == [(8192, 32_768)]
    with pytest.raises(VoiceError, match=f"holds 8176 positions.*at least {needed}"):
        kv_blocks(long, Memory(1024, needed - 1), 4, 2)


def test_a_request_of_two_branches_needs_twice_the_blocks() -> None:
    spec = replace(SPEC, branches=2)
    block = block_bytes(spec.caches, 2)
    one, two = (kv_blocks(s, Memory(free=1 << 40), 4, 2) for s in (SPEC, spec))
    assert two == 2 * one
    with pytest.raises(VoiceError, match="a request"):
        kv_blocks(spec, Memory(bytes=256 * block), 1, 2)
    assert kv_blocks(SPEC, Memory(bytes=256 * block), 1, 2) == 256


def test_talkers_that_share_a_gpu_each_take_a_part_in_any_order_of_starts() -> None:
    free, taken = 40_000 * BLOCK, 0
    for _ in range(3):
        taken += kv_blocks(SPEC, Memory(free=free - taken * BLOCK, sharers=3), 256, 2)
    assert 0.5 * 40_000 < taken <= 0.8 * 40_000
    assert kv_blocks(SPEC, Memory(free=free), 256, 2) == 0.8 * 40_000
