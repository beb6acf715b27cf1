"""Appends to JetStream streams: published, and acknowledged by the broker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import nats.errors
import nats.js.errors

from ttscommon.bus.faults import Unreachable
from ttscommon.bus.link import Link

_STREAM: Final = "Nats-Expected-Stream"


class _Word(msgspec.Struct):
    seq: int = 0
    error: dict[str, Any] | None = None


_decoder: Final = msgspec.json.Decoder(_Word)


async def append(
    link: Link,
    stream: str,
    subject: str,
    data: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
) -> int:
    """The message's sequence in the stream; names are the broker's.

    Raises APIError where the broker refuses it, or one of `Unreachable`.
    """
    began_s = time.monotonic()
    try:
        sequence = await _append(link, subject, data, {**headers, _STREAM: stream}, timeout_s)
    except Unreachable as error:
        link.store.missed(stream, began_s, error)
        raise
    link.store.kept(stream)
    return sequence


async def _append(
    link: Link, subject: str, data: bytes, told: dict[str, str], timeout_s: float
) -> int:
    try:
        answer = await link.client.request(subject, data, timeout=timeout_s, headers=told)
    except nats.errors.NoRespondersError:
        raise nats.js.errors.NoStreamResponseError from None
    try:
        word = _decoder.decode(answer.data)
    except msgspec.MsgspecError as error:
        raise nats.errors.Error(str(error)) from error
    if word.error is not None:
        raise nats.js.errors.APIError.from_error(word.error)
    return word.seq
