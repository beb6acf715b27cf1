"""The number of a talker's KV blocks: as set, or as many as its device has room for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from ttscommon.wire.errors import VoiceError
from ttsfamilies.base.talker.base import CacheSpec, ModelSpec
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, blocks_for

# On a CPU, whose memory is others' too.
_DEFAULT_BLOCKS: Final = 1024
# Of what a device has free once the weights are there; recordings and long prompts need the rest.
_SHARE: Final = 0.8
# A model of longer contexts is served with fewer positions too, where no more are there.
_LEAST_POSITIONS: Final = 8192
# A sentence with its text: streams with less take each other's blocks all the time.
_ENOUGH_POSITIONS: Final = 256

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Memory:
    """What a cache may take. blocks, bytes: as told, if so; free: bytes that a device has left, of
    which so many processes take a part.
    """

    blocks: int | None = None
    bytes: int | None = None
    free: int | None = None
    sharers: int = 1


def block_bytes(caches: Mapping[str, CacheSpec], itemsize: int) -> int:
    """Bytes of one block of all caches of a model, keys and values of `itemsize` bytes each."""
    numbers = sum(cache.layers * cache.kv_heads * cache.head_dim for cache in caches.values())
    return 2 * numbers * itemsize * BLOCK_POSITIONS


def kv_blocks(spec: ModelSpec, memory: Memory, slots: int, itemsize: int) -> int:
    """The number of blocks for `slots` streams, which it logs.

    Raises VoiceError if bytes, or a device's memory, do not hold one request of the model's
    longest or of 8,192 positions, or not a block for every slot. Less than the longest, fewer
    blocks than that, where blocks are told, and a short share of each stream are warned of.
    """
    if not spec.caches:
        return memory.blocks or _DEFAULT_BLOCKS
    blocks, source = _found(spec, memory, slots, itemsize)
    held, longest = blocks // spec.branches * BLOCK_POSITIONS, spec.max_positions
    told = {"slots": slots, "positions_a_stream": held // slots, "longest": longest}
    taken = blocks * block_bytes(spec.caches, itemsize)
    log_.info("kv.sized", blocks=blocks, mib=taken >> 20, positions=held, source=source, **told)
    if held < longest:
        if source != "blocks" and held < _LEAST_POSITIONS:
            _refuse(spec, source, blocks, itemsize)
        log_.warning("kv.short", positions=held, longest=longest)
    if blocks < slots * spec.branches:
        raise VoiceError(
            f"a KV cache of {blocks} blocks ({source}) is too small for ANTIPHON_SLOTS={slots}:"
            " every stream needs a block and more"
        )
    if held // slots < min(_ENOUGH_POSITIONS, longest):
        log_.warning("kv.crowded", **told)
    return blocks


def _found(spec: ModelSpec, memory: Memory, slots: int, itemsize: int) -> tuple[int, str]:
    """Blocks, and what decided on them."""
    size = block_bytes(spec.caches, itemsize)
    if memory.bytes is not None:
        return memory.bytes // size, "bytes"
    if memory.blocks is not None:
        return memory.blocks, "blocks"
    if memory.free is None:
        return _DEFAULT_BLOCKS, "blocks"
    most = slots * _longest(spec)
    return min(most, int(_SHARE * memory.free) // memory.sharers // size), "free memory"


def _longest(spec: ModelSpec) -> int:
    """Blocks of a request of the model's longest, with all its branches."""
    return spec.branches * blocks_for(spec.max_positions)


def _refuse(spec: ModelSpec, source: str, blocks: int, itemsize: int) -> None:
    held = blocks // spec.branches * BLOCK_POSITIONS
    most = min(spec.max_positions, _LEAST_POSITIONS)
    needed = spec.branches * blocks_for(most) * block_bytes(spec.caches, itemsize)
    told = "ANTIPHON_KV_BYTES" if source == "bytes" else f"{_SHARE:.0%} of the device's free memory"
    raise VoiceError(
        f"{told} holds {held} positions, but a request to {spec.name!r} may"
        f" need {most}: give it at least {needed} bytes"
    )
