"""One portion of a book: a request over the same core as a listener's, stored when it is whole."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
import structlog

from gateway.audio import Pcm, pieces
from gateway.books.records import BookOrder, PortionText
from gateway.errors import (
    Draining,
    InvalidApiKey,
    Poison,
    SynthesisTimeout,
    Unavailable,
)
from gateway.requests import GatewayContext, Speech
from ttscommon.wire.errors import (
    AntiphonError,
    BadRequest,
    BusUnavailable,
    LogGone,
    NothingToSay,
    Overloaded,
    StoreUnavailable,
    UnknownModel,
)

T = TypeVar("T")

_SAMPLE_BYTES: Final = 2
_SEED_BYTES: Final = 4
_SEEDS: Final = 1 << 31
# How often a portion is drawn anew that lost its text, and asked for again that failed otherwise.
MOST_REDRAWS: Final = 2
MOST_FAILURES: Final = 3
# The store comes back.
_STORE_AGAIN_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0

# What passes by itself. A model is unknown until the first of its talkers has started.
_PASSING: Final = (
    Overloaded,
    Unavailable,
    BusUnavailable,
    StoreUnavailable,
    Draining,
    InvalidApiKey,
    SynthesisTimeout,
    LogGone,
    UnknownModel,
)

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PortionSound:
    """What came of a portion. runaway: the model lost its text in it."""

    pcm: Pcm
    runaway: bool = False


def passes(error: AntiphonError) -> bool:
    """Whether asking again later is all that there is to do."""
    return isinstance(error, _PASSING)


def is_final(error: AntiphonError, failures: int) -> bool:
    """Whether the book fails with it, when the portion has failed so often."""
    if passes(error):
        return False
    return isinstance(error, BadRequest | Poison) or failures >= MOST_FAILURES


def pause_s(error: AntiphonError) -> float:
    """How long to wait after it."""
    wanted_s = error.retry_after_s if isinstance(error, Overloaded) else 1.0
    return min(max(1.0, wanted_s), _LONGEST_PAUSE_S)


def seed_of(seed: int, index: int, redraw: int) -> int:
    """What a portion is sampled with: the same whichever gateway asks, and when."""
    digest = hashlib.blake2b(f"{seed}.{index}.{redraw}".encode(), digest_size=_SEED_BYTES)
    return int.from_bytes(digest.digest()) % _SEEDS


async def spoken(
    context: GatewayContext,
    tenant: str,
    order: BookOrder,
    portion: PortionText,
    request_id: str,
    seed: int,
) -> PortionSound:
    """Have a portion spoken, with the silence behind it; raises what a request raises.

    Nothing comes of one that says nothing, silence neither: thousands of them make no hours.
    """
    spec = await context.spec(
        tenant,
        model=order.model,
        voice=portion.voice,
        sample_rate=order.sample_rate,
        seed=seed,
        speed=order.speed,
        options=order.options,
    )
    try:
        text = context.whole(portion.text)
        speech = context.speak(replace(spec, offline=True), text, request_id)
        data = await _heard(speech)
    except NothingToSay:
        return PortionSound(np.zeros(0, np.int16))
    data += bytes(_SAMPLE_BYTES * round(portion.pause_s * order.sample_rate))
    return PortionSound(np.frombuffer(data, "<i2"), speech.runaway is not None)


async def _heard(speech: Speech) -> bytearray:
    data = bytearray()
    async with speech:
        async for piece in pieces(speech, speech.pipe()):
            data += piece.data
    return data


async def patiently(action: Callable[[], Awaitable[T]], name: str) -> T:
    """Do it when the store can."""
    while True:
        try:
            return await action()
        except BusUnavailable as error:
            log_.warning("book.store_unavailable", name=name, error=error.message)
            await asyncio.sleep(_STORE_AGAIN_S)
