"""One request's audio and words on their way into a session's outbox."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.audio import Outbox, Piece, pieces
from gateway.protocols.native.state import SessionRequest, Totals
from gateway.protocols.shared.words import timed
from gateway.requests import Speech
from ttscommon.wire.errors import NothingToSay

FORMAT: Final = "pcm_s16le"
_BYTES_PER_SAMPLE: Final = 2
_MAX_FRAME_BYTES: Final = 32 << 10

Tell = Callable[..., None]


async def deliver(
    request: SessionRequest, speech: Speech, outbox: Outbox, tell: Tell, totals: Totals
) -> None:
    """Speak one request into the outbox; returns when its last sample left.

    `totals` is filled as it goes, so that it holds the truth if this is cancelled.
    """
    async with speech:
        delivery = _Delivery(request, speech, outbox, tell, totals)
        async for piece in pieces(speech):
            await delivery.take(piece)
        await outbox.flush()
        if not totals.samples and speech.fresh:
            raise NothingToSay("nothing in the text can be spoken", param="text")


class _Delivery:
    """Turns pieces into messages and binary frames."""

    def __init__(
        self, request: SessionRequest, speech: Speech, outbox: Outbox, tell: Tell, totals: Totals
    ) -> None:
        self._request = request
        self._speech = speech
        self._outbox = outbox
        self._tell = tell
        self._totals = totals
        self._started = False

    async def take(self, piece: Piece) -> None:
        """Queue a piece's words, then its audio."""
        self._start()
        if piece.words:
            self._totals.words += len(piece.words)
            words = [timed(word) for word in piece.words]
            self._tell("audio.words", request_id=self._request.request_id, words=words)
        for start in range(0, len(piece.data), _MAX_FRAME_BYTES):
            data = piece.data[start : start + _MAX_FRAME_BYTES]
            await self._outbox.put_audio(data, partial(self._left, len(data) // _BYTES_PER_SAMPLE))

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        spec, from_sample = self._request.spec, self._request.from_sample
        more: dict[str, object] = {} if from_sample is None else {"from_sample": from_sample}
        if (token := self._speech.resume_token) is not None:
            more["resume_token"] = token
        self._tell(
            "audio.start",
            request_id=self._request.request_id,
            format=FORMAT,
            sample_rate=spec.sample_rate,
            channels=1,
            model=spec.model.name,
            voice=spec.voice.id,
            seed=self._speech.seed,
            **more,
        )

    async def _left(self, samples: int) -> None:
        """A frame was handed to the client's connection."""
        await self._speech.handed(samples)
        self._totals.samples += samples
        self._totals.duration_s = self._totals.samples / self._request.spec.sample_rate
