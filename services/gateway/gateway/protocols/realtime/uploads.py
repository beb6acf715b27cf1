"""Sound in clients' messages: base64 in the session's input format, taken in slices."""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gateway.audio import AudioFormat, Pcm
from gateway.errors import MessageTooBig
from gateway.protocols.realtime.hearing import decoded
from gateway.protocols.shared.bounded_json import Json
from ttscommon.wire.errors import BadRequest

MOST_BYTES: Final = 15 << 20
"""Of sound in one message."""
# With what is above it, so that a message somewhat too big gets a typed answer.
MOST_MESSAGE_BYTES: Final = MOST_BYTES * 4 // 3 + (4 << 20)
_SLICE_CHARS: Final = 1 << 16  # whole groups of four


async def sound_of(audio: Any, form: AudioFormat) -> AsyncIterator[Pcm]:
    """Samples of base64; other sessions go on between slices. Raises BadRequest, MessageTooBig."""
    if not isinstance(audio, str):
        raise BadRequest("'audio': base64 is expected", param="audio")
    if len(audio) * 3 // 4 > MOST_BYTES + 2:
        raise MessageTooBig(f"a message brings at most {MOST_BYTES >> 20} MiB of audio")
    for start in range(0, len(audio), _SLICE_CHARS):
        yield decoded(_bytes(audio[start : start + _SLICE_CHARS]), form)
        await asyncio.sleep(0)


async def joined(every: Sequence[str], form: AudioFormat) -> Pcm:
    """Samples of several, one behind the other; raises as `sound_of`."""
    found = [pcm for audio in every async for pcm in sound_of(audio, form)]
    return np.concatenate(found) if found else np.zeros(0, np.int16)


def restored(message: dict[str, Any], given: Json) -> dict[str, Any]:
    """A message with its recordings in place: its own, those of its item and of its response."""
    if isinstance(audio := message.get("audio"), str):
        message["audio"] = given.restore(audio)
    for part in _parts(message):
        if isinstance(audio := part.get("audio"), str):
            part["audio"] = given.restore(audio)
    return message


def _parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    response = message.get("response")
    asked = response.get("input") if isinstance(response, dict) else None
    for item in (message.get("item"), *(asked if isinstance(asked, list) else ())):
        content = item.get("content") if isinstance(item, dict) else None
        parts = content if isinstance(content, list) else ()
        yield from (part for part in parts if isinstance(part, dict))


def _bytes(part: str) -> bytes:
    try:
        return binascii.a2b_base64(part, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest("'audio': base64 is expected", param="audio") from error
