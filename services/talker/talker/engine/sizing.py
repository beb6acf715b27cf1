"""How many KV blocks a talker gets: given as a number, or by the bytes they may take."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from talker.family.base import CacheSpec, ModelSpec
from talker.family.blocks import BLOCK_POSITIONS
from ttscommon.engine.voice import VoiceError

log_ = structlog.get_logger(__name__)


def block_bytes(caches: Mapping[str, CacheSpec], itemsize: int) -> int:
    """Bytes of one block of all caches of a model, keys and values of `itemsize` bytes each."""
    numbers = sum(cache.layers * cache.kv_heads * cache.head_dim for cache in caches.values())
    return 2 * numbers * itemsize * BLOCK_POSITIONS


def kv_blocks(spec: ModelSpec, blocks: int, kv_bytes: int | None, itemsize: int) -> int:
    """The number of blocks: what fits into `kv_bytes` if that is given, `blocks` otherwise.

    Raises VoiceError if `kv_bytes` do not hold one request of the model's longest. Fewer `blocks`
    than that are warned of: longer requests will be refused.
    """
    if not spec.caches:
        return blocks
    if kv_bytes is not None:
        blocks = kv_bytes // block_bytes(spec.caches, itemsize)
    held = blocks * BLOCK_POSITIONS
    if held >= spec.max_positions:
        return blocks
    if kv_bytes is None:
        log_.warning("kv.short", positions=held, longest=spec.max_positions)
        return blocks
    needed = -(-spec.max_positions // BLOCK_POSITIONS) * block_bytes(spec.caches, itemsize)
    raise VoiceError(
        f"ANTIPHON_KV_BYTES={kv_bytes} holds {held} positions, but a request to {spec.name!r} may"
        f" need {spec.max_positions}: give it at least {needed}"
    )
