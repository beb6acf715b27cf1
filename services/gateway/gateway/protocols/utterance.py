"""One text on its way to a client's ears, and the carrier of its frames."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from gateway.audio import AudioFormat, Outbox, encoder_for, pieces
from gateway.audio.encoders import cost_ms
from gateway.audio.pipe import silence
from gateway.errors import SynthesisFailed
from gateway.protocols.framing import Framing
from gateway.requests import IncrementalText, Speech
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, NothingToSay

# Leaving a request may wait for its last text to be committed.
CLEAN_UP_S: Final = 6.0

log_ = structlog.get_logger(__name__)

F = TypeVar("F", bound=Framing)


class Sink(Protocol):
    """Where an utterance's messages go: an Outbox, or the body of a response."""

    async def put_audio(
        self, data: str | bytes, sent: Callable[[], Awaitable[None]], owner: object = None
    ) -> None:
        """Take audio, as soon as there is room; `sent` is called when it has left."""

    async def flush(self) -> None:
        """Wait until everything that was taken has left."""


@dataclass(frozen=True)
class Rest:
    """What a client that lost its connection still wants of a request: from this sample on."""

    request_id: str
    from_sample: int
    token: str


class StreamedText(Generic[F]):
    """Text goes in by `text`, audio comes out in the frames of `framing`.

    `name`: the context that it is, where a connection has several. `cancelled`: its client does
    not want it any more.
    """

    def __init__(
        self,
        speech: Speech,
        audio: AudioFormat,
        framing: F,
        sink: Sink,
        text: IncrementalText | None = None,
        name: str | None = None,
    ) -> None:
        self.speech = speech
        self.framing = framing
        self.text = text or IncrementalText(0)
        self.name = name
        self.cancelled = False
        self._audio = audio
        self._sink = sink
        self._task: asyncio.Task[None] | None = None

    @property
    def request_id(self) -> str:
        return self.speech.request_id

    async def deliver(self) -> None:
        """Speak it into the sink, as its text comes; returns when its last audio has left.

        Raises what Speech raises, NothingToSay and Runaway as the framing says.
        """
        speech = self.speech
        encoder = encoder_for(self._audio, speech.sample_rate, speech.provenance)
        speech.on_wait = self.framing.waits
        unsent = made = 0
        async with self.speech as speech:
            async for piece in pieces(speech, speech.pipe(encoder), cost_ms(self._audio)):
                made += piece.samples
                for part in self.framing.parts(piece):
                    unsent += part.samples
                    if message := self.framing.audio(speech, part):
                        await self._sink.put_audio(message, partial(self._left, unsent), self)
                        unsent = 0
            if message := self.framing.last(speech, made):
                await self._sink.put_audio(message, partial(self._left, unsent), self)
            await self._sink.flush()
            self._require_sound()
        if speech.runaway is not None and not self.framing.tells:
            raise speech.runaway

    async def sound(self) -> None:
        """Deliver it; what says nothing is silence where the framing has that for a good end."""
        try:
            await self.deliver()
        except NothingToSay:
            if self.framing.blames:
                raise
            await self._be_silent()

    def start(self, over: Callable[[StreamedText[F], AntiphonError | None], None]) -> None:
        """Deliver it in the background; `over` is called at its end, but not if it is stopped.

        Safe to call twice.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._run(over), name=f"utterance-{self.request_id}")

    def detach(self) -> None:
        """Let it go on without its listener, who may come back; its text ends here."""
        if self.speech.spec.resumable and self.speech.begun:
            self.speech.keep()
            self.text.finish()

    async def stop(self) -> None:
        """Return when its slots are free."""
        if self._task is not None:
            await stop(self._task, again_s=CLEAN_UP_S)

    async def _run(self, over: Callable[[StreamedText[F], AntiphonError | None], None]) -> None:
        failed: AntiphonError | None = None
        try:
            await self.sound()
        except AntiphonError as error:
            failed = error
        except Exception as error:
            log_.error("utterance.fault", request_id=self.request_id, exc_info=error)
            failed = SynthesisFailed("internal error")
        over(self, failed)

    async def _be_silent(self) -> None:
        """For a text that was sent, and holds nothing that has a sound."""
        if not self.framing.silence_s:
            return
        if not self.text.characters or self.speech.delivery.samples:
            return
        rate, origin = self.speech.sample_rate, self.speech.provenance
        for piece in silence(self._audio, rate, self.framing.silence_s, origin):
            if message := self.framing.audio(self.speech, piece):
                await self._sink.put_audio(message, _unheard, self)
        await self._sink.flush()

    def _require_sound(self) -> None:
        blamed = self.framing.blames
        if blamed is not None and self.speech.fresh and not self.speech.delivery.samples:
            raise NothingToSay("nothing in the text can be spoken", param=blamed)

    async def _left(self, samples: int) -> None:
        if samples:  # the end of a format may be made of nothing new
            await self.speech.handed(samples)


async def _unheard() -> None:
    """No listener waits for silence: it is in no account."""


class Playlist(Generic[F]):
    """Utterances of one session that are spoken one after another."""

    def __init__(self) -> None:
        self._utterances: deque[StreamedText[F]] = deque()

    def __len__(self) -> int:
        """Those that wait, and the one that is spoken."""
        return len(self._utterances)

    def __iter__(self) -> Iterator[StreamedText[F]]:
        return iter(self._utterances)

    @property
    def spoken(self) -> StreamedText[F] | None:
        """The one whose turn it is."""
        return self._utterances[0] if self._utterances else None

    @property
    def last(self) -> StreamedText[F] | None:
        """The one that is spoken when the others have been."""
        return self._utterances[-1] if self._utterances else None

    def add(self, utterance: StreamedText[F]) -> bool:
        """Append it; returns whether it is its turn."""
        self._utterances.append(utterance)
        return len(self._utterances) == 1

    def over(self, utterance: StreamedText[F]) -> StreamedText[F] | None:
        """It is over, or not wanted; returns the one whose turn it is because of that."""
        if self.spoken is not utterance:
            return None
        self._utterances.popleft()
        return self.spoken

    def clear(self) -> list[StreamedText[F]]:
        """Forget all of them; returns them."""
        left = list(self._utterances)
        self._utterances.clear()
        return left


# How long a client may take for the last messages.
_CLOSE_S: Final = 1.0


class Gone(Exception):
    """The client's connection is over. `lost`: it broke, as far as can be known."""

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost


class Transport(Protocol):
    """What carries a session's frames."""

    @property
    def connected(self) -> bool:
        """Whether anything can still be sent."""

    async def receive(self) -> Any:
        """The next frame; raises Gone, and an AntiphonError for what is none."""

    async def send(self, data: str | bytes) -> None:
        """Raises Gone."""

    async def close(self, code: int) -> None:
        """Raises Gone."""


async def hang_up(
    transport: Transport, outbox: Outbox, sender: asyncio.Task[None], code: int
) -> None:
    """Send what is still to be said, within a bound, and close. `sender` empties the outbox."""
    if not transport.connected:
        await stop(sender, again_s=CLEAN_UP_S)
        return
    outbox.finish()
    if sender.done():
        sender = asyncio.create_task(outbox.send_all(transport.send))
    await asyncio.wait((sender,), timeout=_CLOSE_S)
    await stop(sender, again_s=CLEAN_UP_S)
    try:
        async with asyncio.timeout(_CLOSE_S):
            await transport.close(code)
    except (TimeoutError, Gone):
        log_.debug("session.close_unheard")
