"""One text that is spoken into a shared connection, while others may be spoken there too."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import structlog

from gateway.audio import AudioFormat, Outbox, Piece, encoder_for, pieces
from gateway.audio.encoders import cost_ms
from gateway.audio.silence import SILENCE_S, silence
from gateway.errors import SynthesisFailed
from gateway.requests import GatewayContext, Speech, SpeechSpec, new_request_id
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, NothingToSay

_CLEAN_UP_S: Final = 6.0

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Rest:
    """What a client that lost its connection still wants of a request: from this sample on."""

    request_id: str
    from_sample: int
    token: str


class Frames(Protocol):
    """How a protocol says what happens to an utterance."""

    def audio(self, utterance: Utterance, piece: Piece) -> str | bytes:
        """The message for a piece; empty if there is nothing to say yet."""

    def over(self, utterance: Utterance, error: AntiphonError | None) -> None:
        """Its last audio left, or it failed. Never called for one that was cancelled."""


class Utterance:
    """Text goes in by `text`; audio comes out of `outbox` in the protocol's frames.

    A text without anything to say ends well, with `silence_s` of silence, because clients take an
    end without audio for a failure and try again; None: it is refused. With `rest` the text was
    sent over another connection.
    """

    def __init__(
        self,
        context: GatewayContext,
        spec: SpeechSpec,
        audio: AudioFormat,
        outbox: Outbox,
        frames: Frames,
        rest: Rest | None = None,
        silence_s: float | None = SILENCE_S,
    ) -> None:
        self.spec = spec
        self.text = context.text()
        self.samples = 0
        self.request_id = rest.request_id if rest else new_request_id()
        self._audio = audio
        self._outbox = outbox
        self._silence_s = silence_s
        self._frames = frames
        self._speech = self._source(context, rest)
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    def _source(self, context: GatewayContext, rest: Rest | None) -> Speech:
        if rest is None:
            return context.speak(self.spec, self.text, self.request_id)
        self.text.finish()
        return context.attach(self.spec, rest.request_id, rest.from_sample, rest.token)

    @property
    def seed(self) -> int | None:
        """What it is sampled with; None where another gateway chose it."""
        return self._speech.seed

    @property
    def resume_token(self) -> str | None:
        """What the client has to show when it comes back, if it may."""
        return self._speech.resume_token

    @property
    def begun(self) -> bool:
        """Whether there was anything to say yet."""
        return self._speech.begun

    @property
    def duration_s(self) -> float:
        """Of the audio that left."""
        return self.samples / self.spec.sample_rate

    def played_s(self) -> float:
        """How far a listener who plays at once has heard."""
        return self._speech.played_s()

    def start(self) -> asyncio.Task[None]:
        """Speak it as its text comes, unless it was cancelled; safe to call twice."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"utterance-{self.request_id}")
        return self._task

    def detach(self) -> None:
        """Let it go on without its listener, if he may come back; its text ends here."""
        if self.spec.resumable and self.begun:
            self._speech.detached = True
            self.text.finish()

    async def cancel(self) -> None:
        """Stop it, drop what has not left, and return when its slots are free.

        One that has not started never will.
        """
        self._cancelled = True
        self._outbox.drop_audio(self)
        if self._task is not None:
            await stop(self._task, again_s=_CLEAN_UP_S)
        self._outbox.drop_audio(self)

    async def _run(self) -> None:
        if self._cancelled:
            return
        try:
            await self._speak()
        except NothingToSay as error:
            await self._say_nothing(error)
        except AntiphonError as error:
            self._outbox.drop_audio(self)
            self._frames.over(self, error)
        except Exception as error:
            log_.error("utterance.fault", request_id=self.request_id, exc_info=error)
            self._outbox.drop_audio(self)
            self._frames.over(self, SynthesisFailed("internal error"))
        else:
            self._frames.over(self, None)

    async def _speak(self) -> None:
        encoder = encoder_for(self._audio, self.spec.sample_rate)
        unsent = 0
        async with self._speech as speech:
            async for piece in pieces(speech, encoder, cost_ms(self._audio)):
                unsent += piece.samples
                if message := self._frames.audio(self, piece):
                    await self._outbox.put_audio(message, partial(self._left, unsent), self)
                    unsent = 0
            await self._outbox.flush()

    async def _say_nothing(self, error: NothingToSay) -> None:
        """A text that was sent, and holds nothing that has a sound."""
        if self._silence_s is None:
            self._frames.over(self, error)
            return
        if self._silence_s and self.text.characters and not self.samples:
            rate = self.spec.sample_rate
            for piece in silence(self._audio, rate, self._silence_s):
                if message := self._frames.audio(self, piece):
                    await self._outbox.put_audio(
                        message, partial(self._hushed, piece.samples), self
                    )
            await self._outbox.flush()
        self._frames.over(self, None)

    async def _hushed(self, samples: int) -> None:
        self.samples += samples

    async def _left(self, samples: int) -> None:
        if samples:
            await self._speech.handed(samples)
            self.samples += samples
