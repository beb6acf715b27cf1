"""The input buffer of a session: what its user says comes in, and turns of speech go out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from gateway.audio import AudioFormat, Pcm
from gateway.errors import NothingRecorded
from gateway.protocols.realtime.configuration import Settings, format_of
from gateway.protocols.realtime.hearing import (
    MOST_S,
    HeardSound,
    SpeechDetector,
    SpeechEdge,
    sound_of,
)
from gateway.protocols.realtime.items import new_id
from gateway.protocols.shared.sockets import JsonObject
from ttscommon.process.tasks import stop

_LEAST_S: Final = 0.1


@dataclass(frozen=True)
class UserTurn:
    """Sound that becomes an item. found: the server found where it ends. quiet: nothing was said
    in it, for as long as its client waits. pcm: [samples] int16 at `rate_hz`; none where it is not
    wanted.
    """

    item_id: str
    seconds: float
    found: bool
    pcm: Pcm
    rate_hz: int
    quiet: bool = False


class UserSound:
    """Takes `input_audio_buffer` events. `tell` queues an event.

    committed: called with the turn. interrupt: the user speaks, and wants no more of what is spoken
    to him. hears: whether a turn's sound is wanted.
    """

    def __init__(
        self,
        tell: Callable[[JsonObject], None],
        committed: Callable[[UserTurn], Awaitable[None]],
        interrupt: Callable[[], Awaitable[None]],
    ) -> None:
        self._tell, self._committed, self._interrupt = tell, committed, interrupt
        self._wanted: tuple[Any, ...] = ()
        self._detector: SpeechDetector | None = None
        self._item_id = ""
        self._interrupts = True
        self._quiet_from_s: float | None = None

    @property
    def form(self) -> tuple[AudioFormat, int]:
        """Of the sound that comes, and its rate in Hz."""
        return self._audio, self._rate

    @property
    def speaking(self) -> bool:
        """The user is in a turn of speech."""
        return self._detector is not None and self._detector.speaking

    @property
    def timeout_s(self) -> float | None:
        """How long the user may say nothing; None: as long as he wants."""
        return None if self._detector is None else self._timeout_s

    def configure(self, settings: Settings, *, hears: bool) -> None:
        """Take sound as the settings say; what came so far is forgotten if that is another way."""
        heard = settings["audio"]["input"]
        turns = heard.get("turn_detection")
        wanted = heard["format"], turns, hears
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._audio, self._rate = format_of(heard)
        self._sound = HeardSound(self._rate, kept=hears)
        self._detector = None if turns is None else SpeechDetector(self._rate, turns)
        self._interrupts = turns is not None and turns.get("interrupt_response") is not False
        self._padding_s = 0.0 if turns is None else turns.get("prefix_padding_ms", 300) / 1000
        idle_ms = None if turns is None else turns.get("idle_timeout_ms")
        self._timeout_s = None if idle_ms is None else idle_ms / 1000
        self._quiet_from_s = None

    async def append(self, audio: Any) -> None:
        """More sound, in base64; raises BadRequest, MessageTooBig."""
        async for pcm in sound_of(audio, self._audio):
            await self._take(pcm)

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
        self._item_id, self._quiet_from_s = "", None
        if self._detector is not None:
            self._detector.reset()
        self._tell({"type": "input_audio_buffer.cleared"})

    def hush(self) -> None:
        """Nothing is spoken to the user any more: what comes now is kept, speech or not."""
        if not self.speaking:
            self._quiet_from_s = self._sound.total_s

    async def tire(self) -> None:
        """The user said nothing since `hush`: that is a turn as well."""
        if self._detector is None or self.speaking or self._quiet_from_s is None:
            return
        self._item_id = new_id("item")
        self._sound.begin_at(self._quiet_from_s)
        ends = {"audio_start_ms": self._sound.from_s, "audio_end_ms": self._sound.total_s}
        self._tell_edge("timeout_triggered", **ends)
        await self._commit(self._sound.total_s, quiet=True)

    async def _take(self, pcm: Pcm) -> None:
        self._sound.add(pcm)
        if self._detector is None:
            return
        for edge in self._detector.feed(pcm):
            await (self._begins(edge) if edge.begins else self._ends(edge))
        if not self._detector.speaking:
            begin_s = self._sound.total_s - self._padding_s
            kept_s = begin_s if self._quiet_from_s is None else self._quiet_from_s
            self._sound.begin_at(min(begin_s, kept_s))

    async def _begins(self, edge: SpeechEdge) -> None:
        self._sound.begin_at(edge.at_s)
        self._item_id, self._quiet_from_s = new_id("item"), None
        self._tell_edge("speech_started", audio_start_ms=edge.at_s)
        if self._interrupts:
            await self._interrupt()

    async def _ends(self, edge: SpeechEdge) -> None:
        self._tell_edge("speech_stopped", audio_end_ms=edge.at_s)
        await self._commit(edge.at_s)

    async def _commit(self, end_s: float | None = None, *, quiet: bool = False) -> None:
        """`end_s`: where the server found the turn's end."""
        begin_s, pcm = self._sound.from_s, self._sound.take(end_s)
        seconds = min(self._sound.from_s - begin_s, MOST_S)
        name, self._item_id = self._item_id or new_id("item"), ""
        self._quiet_from_s = None
        turn = UserTurn(name, seconds, end_s is not None, pcm, self._rate, quiet)
        await self._committed(turn)

    def _tell_edge(self, kind: str, **at_s: float) -> None:
        told = {name: round(1000 * seconds) for name, seconds in at_s.items()}
        self._tell({"type": f"input_audio_buffer.{kind}", **told, "item_id": self._item_id})


class QuietTimer:
    """begun: called when the sound that was sent has been played. over: called when nothing was
    said for the time behind that.
    """

    def __init__(self, begun: Callable[[], None], over: Callable[[], Awaitable[None]]) -> None:
        self._begun, self._over = begun, over
        self._task: asyncio.Task[None] | None = None
        self._due = False

    def start(self, played_s: float, limit_s: float) -> None:
        """Sound was sent that is played for `played_s` from now; what ran before does not count."""
        self.stop()
        if not self._due:
            self._task = asyncio.create_task(self._run(played_s, limit_s), name="session-quiet")

    def stop(self) -> None:
        """The user, or his client, has done something. What has begun is done."""
        if self._task is not None and not self._due:
            self._task.cancel()

    async def close(self) -> None:
        if self._task is not None:
            await stop(self._task)

    async def _run(self, played_s: float, limit_s: float) -> None:
        await asyncio.sleep(played_s)
        self._begun()
        await asyncio.sleep(limit_s)
        self._due = True
        try:
            await self._over()
        finally:
            self._due = False
