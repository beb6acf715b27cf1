"""Contexts of a session: requests that do not wait for each other.

Their audio is JSON with the context's name, because binary frames carry none.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import structlog

from gateway.audio import AudioFormat, Outbox, Piece
from gateway.errors import ClientTooSlow, TooManyContexts, WrongOrder
from gateway.protocols.native.delivery import FORMAT
from gateway.protocols.native.messages import (
    CancelSpeech,
    InputDone,
    InputFlush,
    InputPause,
    InputPhones,
    InputText,
    OfContext,
    SessionResume,
    tell,
    tell_error,
    write,
)
from gateway.protocols.shared.utterance import Rest, Utterance
from gateway.protocols.shared.words import timed
from gateway.requests import GatewayContext, SpeechSpec
from gateway.requests.dropped import dropped
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import WordTime

log_ = structlog.get_logger(__name__)


@dataclass
class Named:
    """A context: its request, and the number of its next message."""

    name: str
    utterance: Utterance
    sequence: count[int]

    def about(self) -> dict[str, Any]:
        return {
            "context_id": self.name,
            "request_id": self.utterance.request_id,
            "sequence": next(self.sequence),
        }


class Contexts:
    """The contexts of one session. A name may be used again once its text is complete."""

    def __init__(self, context: GatewayContext, outbox: Outbox) -> None:
        self._context = context
        self._outbox = outbox
        self._by_name: dict[str, Named] = {}
        self._speaking: dict[Utterance, Named] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def busy(self) -> bool:
        """Whether any has something to say."""
        return any(utterance.begun for utterance in self._speaking)

    async def take(self, message: OfContext, spec: SpeechSpec) -> None:
        """One message of a context; its first text opens it."""
        name = message.context_id or ""
        named = self._by_name.get(name)
        match message:
            case InputText() | InputFlush() | InputPhones() | InputPause():
                if named is None or named.utterance.text.complete:
                    named = self._open(name, spec)
                write(named.utterance.text, message)
            case SessionResume(request_id=request_id, from_sample=sample, token=token):
                if named is not None and not named.utterance.text.complete:
                    raise WrongOrder("session.resume must not name a context that takes text")
                self._open(name, spec, Rest(request_id, sample, token))
            case InputDone():
                if named is None:
                    raise WrongOrder("input.done must follow a context's text")
                named.utterance.text.finish()
            case CancelSpeech():
                if named is not None:
                    await self._cancel(named, message.played_s)

    def finish(self) -> None:
        """No more text will come for any."""
        for named in self._speaking.values():
            named.utterance.text.finish()

    async def ended(self) -> None:
        """Return when none is left."""
        await self._empty.wait()

    def detach(self) -> None:
        """Let those that can be resumed go on without their listener."""
        for utterance in self._speaking:
            utterance.detach()

    async def end(self, error: AntiphonError | None) -> None:
        """The session is over; `error` ends each context too, if the client can still hear it."""
        await asyncio.gather(*(utterance.cancel() for utterance in list(self._speaking)))
        if error is None:
            return
        try:
            for named in self._speaking.values():
                tell_error(self._outbox, error, **named.about())
        except ClientTooSlow:
            log_.debug("context.error_unheard")

    def audio(self, utterance: Utterance, piece: Piece) -> str:
        """An `audio.chunk`, behind the times of the words in it."""
        named = self._speaking[utterance]
        if piece.words:
            tell(
                self._outbox, "audio.words", **named.about(), words=[_timed(w) for w in piece.words]
            )
        if not piece.data:
            return ""
        chunk = {"type": "audio.chunk", **named.about()}
        chunk["audio"] = base64.b64encode(piece.data).decode()
        return msgspec.json.encode(chunk).decode()

    def over(self, utterance: Utterance, error: AntiphonError | None) -> None:
        named = self._forget(utterance)
        if error is not None:
            tell_error(self._outbox, error, **named.about())
        else:
            self._done(named, "ok", utterance.played_s())

    def _open(self, name: str, spec: SpeechSpec, rest: Rest | None = None) -> Named:
        most = self._context.settings.max_contexts
        if len(self._speaking) >= most:
            raise TooManyContexts(f"at most {most} contexts may be open")
        utterance = Utterance(
            self._context, spec, AudioFormat(), self._outbox, self, rest, silence_s=None
        )
        named = Named(name, utterance, count())
        self._by_name[name] = self._speaking[utterance] = named
        self._empty.clear()
        tell(self._outbox, "audio.start", **named.about(), **_started(utterance, rest))
        utterance.start()
        return named

    async def _cancel(self, named: Named, played_s: float | None) -> None:
        utterance = named.utterance
        if utterance not in self._speaking:
            return
        heard_s = utterance.played_s() if played_s is None else played_s
        await utterance.cancel()
        if utterance in self._speaking:
            self._forget(utterance)
            self._done(named, "cancelled", min(heard_s, utterance.duration_s))

    def _forget(self, utterance: Utterance) -> Named:
        named = self._speaking.pop(utterance)
        if self._by_name.get(named.name) is named:
            del self._by_name[named.name]
        if not self._speaking:
            self._empty.set()
        return named

    def _done(self, named: Named, outcome: str, played_s: float) -> None:
        utterance = named.utterance
        tell(
            self._outbox,
            "audio.done",
            **named.about(),
            outcome=outcome,
            samples=utterance.samples,
            duration_s=round(utterance.duration_s, 6),
            played_s=round(played_s, 6),
            ignored=dropped(utterance.spec, utterance.text),
        )


def _started(utterance: Utterance, rest: Rest | None) -> dict[str, Any]:
    spec = utterance.spec
    more: dict[str, Any] = {} if rest is None else {"from_sample": rest.from_sample}
    if (token := utterance.resume_token) is not None:
        more["resume_token"] = token
    return {
        "format": FORMAT,
        "sample_rate": spec.sample_rate,
        "channels": 1,
        "model": spec.model.name,
        "voice": spec.voice.id,
        "seed": utterance.seed,
        **more,
    }


def _timed(word: WordTime) -> dict[str, Any]:
    """A word's times, and where each of its characters begins (evenly spread)."""
    step_s = (word.end_s - word.start_s) / max(1, len(word.word))
    return {
        **timed(word),
        "characters_s": [round(word.start_s + i * step_s, 4) for i in range(len(word.word))],
    }
