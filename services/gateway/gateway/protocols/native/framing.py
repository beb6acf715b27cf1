"""Messages about one request: of the session's own as binary audio, of a context's as JSON."""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final
from weakref import WeakMethod

from gateway import errors
from gateway.audio import PcmBlock
from gateway.errors import WrongOrder
from gateway.protocols.framing import Framing, timed
from gateway.protocols.native.messages import InputRows, control, error_message, rows_of
from gateway.protocols.utterance import Rest
from gateway.requests import GatewayContext, IncrementalText, Production, Speech
from ttscommon.wire.errors import AntiphonError, Overloaded
from ttscommon.wire.messages import WordTime


class Producers:
    """By request id. put: the session's, which sends a message to the client; a session that its
    producers referred to would be kept until the collector comes.
    """

    def __init__(
        self,
        context: GatewayContext,
        tenant: str,
        put: WeakMethod[Callable[[str], object]],
    ) -> None:
        self._context, self._tenant, self._put = context, tenant, put
        self._known: dict[str, Production] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._known

    def open(self, request_id: str, width: int, token: str | None) -> None:
        """The rows of a new request of this session's. token: with which it can be attached to."""
        more = {} if token is None else {"resume_token": token}
        self._begin(request_id, width, more).start(fresh=True)

    def elsewhere(self, request_id: str, token: str | None) -> None:
        """A new request of this session's has its rows from another connection."""
        self._accepted(request_id, {} if token is None else {"resume_token": token}, 0)

    def attach(self, request_id: str, width: int, token: str) -> None:
        """The rows of a request that another connection opened; raises NotFound, WrongOrder."""
        self._context.require_token(token, request_id, self._tenant)
        if request_id in self._known:
            raise WrongOrder("the rows of this request come over this connection already")
        self._begin(request_id, width, {}).start(fresh=False)

    def _begin(self, request_id: str, width: int, more: dict[str, Any]) -> Production:
        made = self._known[request_id] = self._context.produce(
            *(self._tenant, request_id, width),
            accepted=partial(self._accepted, request_id, more),
            failed=partial(self._failed, request_id),
        )
        return made

    def add(self, request_id: str, message: InputRows) -> None:
        """Raises WrongOrder, BadRequest, TextTooLong, InputTooFast."""
        if message.rows is not None:
            self._of(request_id).add(rows_of(message.rows), message.start)

    def finish(self, request_id: str) -> None:
        """Its rows are complete; raises WrongOrder."""
        self._of(request_id).finish()

    def _of(self, request_id: str) -> Production:
        if request_id not in self._known:
            raise WrongOrder("rows of a request must follow input.attach", param="request_id")
        return self._known[request_id]

    def drop(self, request_id: str) -> None:
        """The request is over; safe where there is none."""
        if (known := self._known.pop(request_id, None)) is not None:
            known.abandon()

    async def close(self) -> None:
        """The connection is: what is not complete may go on over another."""
        left, self._known = self._known, {}
        for production in left.values():
            await production.close()

    def _say(self, message: str) -> None:
        if (put := self._put()) is not None:
            put(message)

    def _accepted(self, request_id: str, more: dict[str, Any], rows: int) -> None:
        self._say(control("input.accepted", request_id=request_id, rows=rows, **more))

    def _failed(self, request_id: str, error: AntiphonError) -> None:
        self._known.pop(request_id, None)
        self._say(error_message(error, request_id))


FORMAT: Final = "pcm_s16le"
_BYTES_PER_SAMPLE: Final = 2
_MAX_FRAME_BYTES: Final = 32 << 10


def ends_session(error: AntiphonError) -> bool:
    """Whether a request's error ends its session too. A refusal for want of room does not: another
    connection would cost more than the next try.
    """
    return errors.edge(error).close is not None and not isinstance(error, Overloaded)


class NativeFraming(Framing):
    """What both have in common: a start, the times of words, and a report at the end."""

    tells = True

    def __init__(self, tell: Callable[[str], None], rest: Rest | None = None) -> None:
        """`tell` queues a message that does not wait for room. `text`: what is spoken, as long as
        it comes over this connection.
        """
        self.text: IncrementalText | None = None
        self._tell = tell
        self._rest = rest

    def about(self, speech: Speech) -> dict[str, Any]:
        """The fields by which a message names its request."""
        return {"request_id": speech.request_id}

    @abstractmethod
    def report(self, speech: Speech) -> dict[str, Any]:
        """What `audio.done` says besides how it ended and how much was heard."""

    def start(self, speech: Speech) -> None:
        """Tell what comes."""
        spec, rest = speech.spec, self._rest
        more: dict[str, Any] = {} if rest is None else {"from_sample": rest.from_sample}
        if (token := speech.resume_token) is not None:
            more["resume_token"] = token
        more |= {} if (origin := speech.provenance) is None else origin.message
        self._say(
            "audio.start",
            speech,
            format=FORMAT,
            sample_rate=spec.sample_rate,
            channels=1,
            model=spec.model.name,
            voice=spec.voice.id,
            seed=speech.seed,
            **more,
        )

    def end(self, speech: Speech) -> str:
        return self.done(speech, speech.outcome, speech.delivery.played_s())

    def done(self, speech: Speech, outcome: str, played_s: float) -> str:
        """The last message of a request that did not fail."""
        delivery = speech.delivery
        return control(
            "audio.done",
            **self.about(speech),
            outcome=outcome,
            samples=delivery.samples,
            duration_s=round(delivery.duration_s, 6),
            **self.report(speech),
            played_s=round(played_s, 6),
            **self.counts(),
            **({} if speech.runaway is None else {"reached": speech.runaway.param}),
            ignored=[] if self.text is None else speech.spec.dropped(self.text),
        )

    def counts(self) -> dict[str, Any]:
        """What `audio.done` counts besides samples."""
        return {}

    def failed(self, speech: Speech, error: AntiphonError) -> str:
        return error_message(error, **self.about(speech))

    def waits(self, speech: Speech, lacking: AntiphonError) -> None:
        told = {"code": lacking.code, "message": lacking.message}
        self._say("warning", speech, warning=told)

    def transcribe(self, speech: Speech, piece: PcmBlock) -> None:
        """Tell what the model says with a piece."""
        for said in piece.said:
            text, at_s = said.text, round(said.at_s, 4)
            self._say("audio.transcript", speech, start=said.start, text=text, at_s=at_s)

    def _say(self, kind: str, speech: Speech, **fields: Any) -> None:
        self._tell(control(kind, **self.about(speech), **fields))


class OwnFraming(NativeFraming):
    """A request of the session itself, whose audio is binary: only one is spoken at a time."""

    blames = "text"
    drops = False

    def __init__(self, tell: Callable[[str], None], rest: Rest | None = None) -> None:
        super().__init__(tell, rest)
        self._started = False
        self._words = 0

    def parts(self, piece: PcmBlock) -> Iterable[PcmBlock]:
        yield _part(piece, 0)
        for start in range(_MAX_FRAME_BYTES, len(piece.data), _MAX_FRAME_BYTES):
            yield replace(_part(piece, start), words=(), said=())

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        if not self._started:
            self._started = True
            self.start(speech)
        self.transcribe(speech, piece)
        if piece.words:
            self._words += len(piece.words)
            self._say("audio.words", speech, words=[timed(word) for word in piece.words])
        return piece.data

    def failed(self, speech: Speech, error: AntiphonError) -> str:
        """What ends the session is told by the session."""
        return "" if ends_session(error) else super().failed(speech, error)

    def report(self, speech: Speech) -> dict[str, Any]:
        delivery = speech.delivery
        account = delivery.account
        return {
            "ttfp_s": _rounded(delivery.ttfp_s),
            "stages": delivery.stages,
            "underruns": account.underruns if account else 0,
            "underrun_s": round(account.underrun_s, 6) if account else 0.0,
            "min_slack_s": _rounded(account.min_slack_s if account else None),
            "busy": delivery.busy,
        }

    def counts(self) -> dict[str, Any]:
        return {"words": self._words}


class ContextFraming(NativeFraming):
    """A context's: its messages carry its name and a running number, and audio is base64."""

    blames = "text"

    def __init__(
        self, tell: Callable[[str], None], context_id: str, rest: Rest | None = None
    ) -> None:
        super().__init__(tell, rest)
        self._context_id = context_id
        self._sequence = count()

    def about(self, speech: Speech) -> dict[str, Any]:
        return {
            "context_id": self._context_id,
            "request_id": speech.request_id,
            "sequence": next(self._sequence),
        }

    def audio(self, speech: Speech, piece: PcmBlock) -> str:
        self.transcribe(speech, piece)
        if piece.words:
            words = [{**timed(word), **_characters(word)} for word in piece.words]
            self._say("audio.words", speech, words=words)
        if not piece.data:
            return ""
        audio = base64.b64encode(piece.data).decode()
        return control("audio.chunk", **self.about(speech), audio=audio)

    def report(self, speech: Speech) -> dict[str, Any]:
        return {}


def _part(piece: PcmBlock, start: int) -> PcmBlock:
    data = piece.data[start : start + _MAX_FRAME_BYTES]
    return PcmBlock(data, len(data) // _BYTES_PER_SAMPLE, piece.words, piece.said)


def _characters(word: WordTime) -> dict[str, Any]:
    """Where each of a word's characters begins (evenly spread)."""
    step_s = (word.end_s - word.start_s) / max(1, len(word.word))
    return {"characters_s": [round(word.start_s + i * step_s, 4) for i in range(len(word.word))]}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
