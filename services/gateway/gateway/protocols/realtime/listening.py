"""The input buffer of a session: what its user says comes in, and turns of speech go out."""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Awaitable, Callable
from typing import Any, Final

from gateway.errors import NothingRecorded
from gateway.protocols.realtime.configuration import Settings, format_of
from gateway.protocols.realtime.hearing import (
    MOST_S,
    HeardSound,
    SpeechDetector,
    SpeechEdge,
    decoded,
)
from gateway.protocols.realtime.items import new_id
from gateway.protocols.shared.sockets import JsonObject
from ttscommon.wire.errors import BadRequest

_SLICE_CHARS: Final = 1 << 16  # whole groups of four
_LEAST_S: Final = 0.1


class UserSound:
    """Takes `input_audio_buffer` events. `tell` queues an event.

    committed: called with the id of the item that a turn becomes, and its seconds. interrupt: the
    user speaks, and wants no more of what is spoken to him.
    """

    def __init__(
        self,
        tell: Callable[[JsonObject], None],
        committed: Callable[[str, float], Awaitable[None]],
        interrupt: Callable[[], Awaitable[None]],
    ) -> None:
        self._tell, self._committed, self._interrupt = tell, committed, interrupt
        self._wanted: tuple[Any, Any] = None, None
        self._detector: SpeechDetector | None = None
        self._item_id = ""
        self._interrupts = True

    def configure(self, settings: Settings) -> None:
        """Take sound as the settings say; what came so far is forgotten if that is another way."""
        heard = settings["audio"]["input"]
        turns, wanted = heard.get("turn_detection"), (heard["format"], heard.get("turn_detection"))
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._audio, self._rate = format_of(heard)
        self._sound = HeardSound(self._rate, kept=False)
        self._detector = None if turns is None else SpeechDetector(self._rate, turns)
        self._interrupts = turns is not None and turns.get("interrupt_response") is not False
        self._padding_s = 0.0 if turns is None else turns.get("prefix_padding_ms", 300) / 1000

    async def append(self, audio: Any) -> None:
        """More sound, in base64; raises BadRequest."""
        if not isinstance(audio, str):
            raise BadRequest("'audio': base64 is expected", param="audio")
        for start in range(0, len(audio), _SLICE_CHARS):
            await self._take(_bytes(audio[start : start + _SLICE_CHARS]))
            await asyncio.sleep(0)

    async def commit(self) -> None:
        """What waits is a turn; raises NothingRecorded."""
        if self._sound.seconds < _LEAST_S:
            raise NothingRecorded("the input buffer holds less than 0.1 s", param=None)
        if self._detector is not None:
            self._detector.reset()
        await self._commit()

    def clear(self) -> None:
        """What waits is not wanted."""
        self._sound.take()
        self._item_id = ""
        if self._detector is not None:
            self._detector.reset()
        self._tell({"type": "input_audio_buffer.cleared"})

    async def _take(self, data: bytes) -> None:
        pcm = decoded(data, self._audio)
        self._sound.add(pcm)
        if self._detector is None:
            return
        for edge in self._detector.feed(pcm):
            await (self._begins(edge) if edge.begins else self._ends(edge))
        if not self._detector.speaking:
            self._sound.begin_at(self._sound.total_s - self._padding_s)

    async def _begins(self, edge: SpeechEdge) -> None:
        self._sound.begin_at(edge.at_s)
        self._item_id = new_id("item")
        self._tell_edge("speech_started", audio_start_ms=edge.at_s)
        if self._interrupts:
            await self._interrupt()

    async def _ends(self, edge: SpeechEdge) -> None:
        self._tell_edge("speech_stopped", audio_end_ms=edge.at_s)
        await self._commit()

    async def _commit(self) -> None:
        seconds = min(self._sound.seconds, MOST_S)
        self._sound.take()
        name, self._item_id = self._item_id or new_id("item"), ""
        await self._committed(name, seconds)

    def _tell_edge(self, kind: str, **at_s: float) -> None:
        told = {name: round(1000 * seconds) for name, seconds in at_s.items()}
        self._tell({"type": f"input_audio_buffer.{kind}", **told, "item_id": self._item_id})


def _bytes(part: str) -> bytes:
    try:
        return binascii.a2b_base64(part, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest("'audio': base64 is expected", param="audio") from error
