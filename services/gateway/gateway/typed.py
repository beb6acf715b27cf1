"""A request that arrives word by word: collected while it is typed, spoken when its turn comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gateway.front import Front, new_request_id, speech_request
from gateway.keys import ANONYMOUS
from gateway.outbox import Outbox
from gateway.resample import Pcm, resampler
from gateway.speech import LateText, Resume, Speech
from gateway.text import TextCleaner, speakable, too_long
from ttscommon.errors import AntiphonError, NothingToSay
from ttscommon.messages import AudioChunk, SpeechRequest
from ttscommon.replicas import Model, Voice

FORMAT: Final = "pcm_s16le"
_MAX_FRAME_SAMPLES: Final = 16_384

Tell = Callable[..., None]


@dataclass(frozen=True)
class Voicing:
    """How a session wants its requests spoken."""

    model: Model
    voice: Voice
    sample_rate: int
    seed: int | None
    language: str | None
    resumable: bool = False
    tenant: str = ANONYMOUS


class TypedRequest:
    """Text on its way in. Everything before the first sound goes into the job itself."""

    from_sample: int | None = None

    def __init__(self, voicing: Voicing, max_chars: int) -> None:
        self.request_id = new_request_id()
        self.voicing = voicing
        self.late_text = LateText()
        self.cancelled = False
        self.failure: AntiphonError | None = None
        self._max_chars = max_chars
        self._chars = 0
        self._cleaner = TextCleaner()
        self._head = ""
        self._submitted = False
        self._changed = asyncio.Event()

    @property
    def complete(self) -> bool:
        return self.late_text.complete

    def add(self, text: str) -> None:
        """Take some text; raises TextTooLong, which also ends the request."""
        self._chars += len(text)
        if self._chars > self._max_chars:
            self.failure = too_long(self._chars, self._max_chars)
            self._changed.set()
            raise self.failure
        self._accept(self._cleaner.feed(text))

    def finish(self) -> None:
        """No more text will come."""
        self._accept(self._cleaner.feed("", final=True))
        self.late_text.finish()
        self._changed.set()

    async def job(self, coalesce_s: float) -> SpeechRequest:
        """The job, as soon as there is anything to say.

        Waits `coalesce_s` more for the end of the text, because a text that came in one go needs
        no text log. Raises NothingToSay for a text that ended without a speakable character.
        """
        while not (self.complete or self.failure or speakable(self._head)):
            self._changed.clear()
            await self._changed.wait()
        if not self.complete:
            await self._linger(coalesce_s)
        if self.failure is not None:
            raise self.failure
        if self.complete and not speakable(self._head):
            raise NothingToSay("there is nothing to say in the text", param="text")
        self._submitted = True
        voicing = self.voicing
        return speech_request(
            self.request_id, voicing.model, voicing.voice, self._head,
            text_final=self.complete,
            seed=voicing.seed, language=voicing.language, tenant=voicing.tenant,
        )  # fmt: skip

    async def _linger(self, coalesce_s: float) -> None:
        try:
            async with asyncio.timeout(coalesce_s):
                while not (self.complete or self.failure):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    def _accept(self, cleaned: str) -> None:
        if self._submitted:
            self.late_text.push(cleaned)
        else:
            self._head = self._head + cleaned if self._head else cleaned.lstrip()
        self._changed.set()


class ResumedRequest(TypedRequest):
    """A request whose connection was lost, to be heard from `from_sample` on."""

    def __init__(self, voicing: Voicing, request_id: str, from_sample: int) -> None:
        super().__init__(voicing, max_chars=0)
        self.request_id = request_id
        self.from_sample = from_sample
        self.late_text.finish()

    async def job(self, coalesce_s: float) -> SpeechRequest:
        """What stands for the job, which was submitted long ago."""
        voicing = self.voicing
        return speech_request(
            self.request_id, voicing.model, voicing.voice, "",
            seed=voicing.seed, language=voicing.language, tenant=voicing.tenant,
        )  # fmt: skip

    def resume(self) -> Resume:
        """Other sample rates are made from the request's beginning: a resampler has a memory."""
        assert self.from_sample is not None
        rate, native = self.voicing.sample_rate, self.voicing.model.sample_rate
        return Resume(self.from_sample if rate == native else 0, self.from_sample / rate)


@dataclass
class Spoken:
    """What one request, or a whole session, gave its listener."""

    samples: int = 0
    duration_s: float = 0.0
    words: int = 0
    speech: Speech | None = None

    def add(self, other: Spoken) -> None:
        self.samples += other.samples
        self.duration_s += other.duration_s

    def report(self, outcome: str) -> dict[str, Any]:
        """The fields of `audio.done`."""
        account = self.speech.account if self.speech else None
        return {
            "outcome": outcome,
            "samples": self.samples,
            "duration_s": round(self.duration_s, 6),
            "ttfp_s": _rounded(self.speech.ttfp_s if self.speech else None),
            "stages": self.speech.stages if self.speech else {},
            "underruns": account.underruns if account else 0,
            "underrun_s": round(account.underrun_s, 6) if account else 0.0,
            "min_slack_s": _rounded(account.min_slack_s if account else None),
            "played_s": round(self.speech.played_s(), 6) if self.speech else 0.0,
            "words": self.words,
        }


async def speak(
    typed: TypedRequest, front: Front, outbox: Outbox, tell: Tell, spoken: Spoken
) -> None:
    """Speak one request into the outbox; returns when its last sample left.

    `spoken` is filled as it goes, so that it holds the truth if this is cancelled.
    """
    job = await typed.job(front.settings.coalesce_s)
    late_text = None if job.text_final else typed.late_text
    resume = typed.resume() if isinstance(typed, ResumedRequest) else None
    async with Speech(front.backstage, job, late_text, resume) as speech:
        spoken.speech = speech
        delivery = _Delivery(typed, job, outbox, tell, spoken)
        async for chunk in speech:
            await delivery.take(chunk)
        await delivery.finish()
        if not spoken.samples and resume is None:
            raise NothingToSay("nothing in the text can be spoken", param="text")


class _Delivery:
    """Turns a request's chunks into messages and binary frames."""

    def __init__(
        self, typed: TypedRequest, job: SpeechRequest, outbox: Outbox, tell: Tell, spoken: Spoken
    ) -> None:
        self._voicing = typed.voicing
        self._job = job
        self._outbox = outbox
        self._tell = tell
        self._spoken = spoken
        self._started = False
        self._from_sample = typed.from_sample
        resampled = typed.voicing.sample_rate != typed.voicing.model.sample_rate
        self._skip = (typed.from_sample or 0) if resampled else 0
        self._resampler = resampler(typed.voicing.model.sample_rate, typed.voicing.sample_rate)

    async def take(self, chunk: AudioChunk) -> None:
        """Queue a chunk's audio, and its words before it."""
        if chunk.words:
            self._start()
            self._spoken.words += len(chunk.words)
            words = [
                {"word": w.word, "start_s": round(w.start_s, 4), "end_s": round(w.end_s, 4)}
                for w in chunk.words
            ]
            self._tell("audio.words", request_id=self._job.request_id, words=words)
        await self._queue(self._resampler.feed(chunk.pcm.array()))

    async def finish(self) -> None:
        """Queue what the resampler held back, and wait until all has left."""
        await self._queue(self._resampler.flush())
        await self._outbox.flush()

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        resumed = {} if self._from_sample is None else {"from_sample": self._from_sample}
        self._tell(
            "audio.start",
            request_id=self._job.request_id,
            format=FORMAT,
            sample_rate=self._voicing.sample_rate,
            channels=1,
            model=self._job.model,
            voice=self._job.voice,
            seed=self._job.seed,
            **resumed,
        )

    async def _queue(self, pcm: Pcm) -> None:
        skipped = min(self._skip, len(pcm))
        self._skip -= skipped
        pcm = pcm[skipped:]
        for start in range(0, len(pcm), _MAX_FRAME_SAMPLES):
            self._start()
            part = pcm[start : start + _MAX_FRAME_SAMPLES]
            data = part.astype("<i2", copy=False).tobytes()
            await self._outbox.put_audio(data, partial(self._left, len(part)))

    async def _left(self, samples: int) -> None:
        """A frame was handed to the client's connection."""
        speech = self._spoken.speech
        assert speech is not None
        await speech.handed(samples, self._voicing.sample_rate)
        self._spoken.samples += samples
        self._spoken.duration_s = self._spoken.samples / self._voicing.sample_rate


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
