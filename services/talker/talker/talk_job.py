"""One request on its way from text, through the engine, into the codec log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import structlog

from talker.adapters import Adapters
from talker.engine.interface import SpeechEngine
from talker.engine.stream import Event
from talker.text_feed import ReadingTurns, TextFeed, TextTiming, next_unit
from ttscommon.bus import Bus, LogWriter
from ttscommon.cluster.references import References
from ttscommon.cluster.worker import Job
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.engine.stage_job import EventRouter, StageJob
from ttscommon.process import tracing
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Overloaded, Runaway
from ttscommon.wire.fields import Arrays, Derived, concatenate
from ttscommon.wire.messages import CodecChunk, End, Spent, Tensor
from ttscommon.wire.pieces import unmarked
from ttsfamilies.base.talker.base import Prepared, check
from ttsfamilies.base.talker.streams import CutShort, Taken

# Encoding half a minute of sound, beside the speech of other streams.
_DERIVE_TIMEOUT_S: Final = 120.0

log_ = structlog.get_logger(__name__)


class TalkJob:
    """Runs one job from where its codec log ends to its End."""

    def __init__(
        self,
        bus: Bus,
        engine: SpeechEngine,
        router: EventRouter[Event],
        job: Job,
        writer: LogWriter,
        timing: TextTiming,
        adapters: Adapters | None = None,
        turns: ReadingTurns | None = None,
    ) -> None:
        """adapters: of a model that is served with any. turns: of all jobs of the talker."""
        self._bus = bus
        self._engine = engine
        self._job = job
        self._writer = writer
        self._room_s = timing.room_s
        self._stage = StageJob(subjects.TALKER, engine, router, job, writer)
        self._turns = turns or ReadingTurns()
        self._text = TextFeed(bus, engine, job, writer, timing, self._turns)
        self._key = job.request_id
        self._opened_s = time.monotonic()
        self._request = job.request
        self._derived = Derived()
        self._adapters = adapters
        self._give_back: Callable[[], None] = lambda: None
        self._starting = ExitStack()  # while a listener waits for its first chunk
        self._refused: Exception | None = None

    async def run(self) -> None:
        """Have the engine speak while the vocoders' job is queued, and write the End."""
        if not self._request.offline:
            self._engine.expect()
        with self._starting:
            await self._run()

    async def _run(self) -> None:
        self._starting.enter_context(self._turns.starting(offline=self._request.offline))
        await self._find_reference()
        # The first frames need not wait for the broker's word that the vocoders have their job.
        submitting = asyncio.create_task(self._submit())
        try:
            with self._stage.listening() as events:
                end = await self._outcome(submitting, events)
            await submitting
            await self._writer.end(end)
        finally:
            self._give_back()
            await stop(submitting, again_s=0.5)

    async def _submit(self) -> None:
        """Queue the vocoders' job. While their queue is full this talker waits for them, unless
        no listener wants the request any more.
        """
        refused = False
        while not (refused and self._job.cancelled.is_set()):
            try:
                await self._bus.submit(subjects.VOCODER, self._request)
                return
            except Overloaded:
                if not refused:
                    log_.warning("vocoders.full", request_id=self._key)
                refused = True
                await asyncio.sleep(self._room_s)

    async def _find_reference(self) -> None:
        """Whose voice it is, before the vocoders are told, as they need it too."""
        asked = self._request
        if asked.reference is None and all(turn.sound is None for turn in asked.turns):
            self._derived = Derived(turns=(None,) * len(asked.turns))
            return
        family = self._engine.family

        async def encode(recording: bytes) -> Arrays:
            return await asyncio.to_thread(family.derive, recording)

        async def hear(recording: bytes) -> Arrays:
            return await asyncio.to_thread(family.hear, recording)

        try:
            async with asyncio.timeout(_DERIVE_TIMEOUT_S):
                self._request, self._derived = await References(self._bus).derive_all(
                    asked, family.revision, encode, hear if family.hears else None
                )
        except BusUnavailable:
            raise
        except TimeoutError as error:
            raise BusUnavailable("the recording could not be read in time") from error
        except Exception as error:  # noqa: BLE001 -- becomes the request's End
            self._refused = error

    async def _outcome(self, submitting: asyncio.Task[None], events: asyncio.Queue[Event]) -> End:
        """Work until the request is cancelled, spoken or failed, whichever is first.

        Raises what queueing the vocoders' job fails with: without one there is no use in speaking.
        """
        try:
            end = await self._stage.first(_shielded(submitting), self._write(events), self._speak())
        except AntiphonError as error:
            if submitting.done() and submitting.exception() is error:
                raise
            return self._stage.failure(error)
        finally:
            await self._stage.free()
        if end is None:
            raise AssertionError("codes were written to no end")
        return end

    async def _speak(self) -> None:
        """Open the stream with its first utterance, then pass on the text that follows.

        Preparing happens in a thread, as reading does; see TextFeed. Raises what the model refuses.
        """
        if self._refused is not None:
            raise self._refused
        if self._adapters is not None and self._request.adapter is not None:
            self._give_back = await self._adapters.acquire(self._request.adapter)
        async with self._turns.turn(offline=self._request.offline):
            prepared, units, first = await asyncio.to_thread(self._begin)
        restored = self._restored()
        self._opened_s = time.monotonic()
        self._engine.open(prepared, restored, first)
        self._stage.tell_playback()
        await self._text.feed(prepared, units, spoken=bool(first))

    def _begin(self) -> tuple[Prepared, Iterator[Any], Sequence[Any]]:
        """The request as the model sees it, the units of its text, and the first of them."""
        request = self._request
        check(self._engine.spec, request)
        prepared = self._engine.family.prepare(request, self._derived)
        units = prepared.read(
            unmarked(request.text, request.marks, request.spans), final=request.text_final
        )
        return prepared, units, next_unit(units)

    async def _write(self, events: asyncio.Queue[Event]) -> End:
        """Put chunks until the stream ends, and return the End that fits how it ended."""
        cut_short: CutShort | None = None
        while True:
            match event := await events.get():
                case Taken(frames, words, said, prefill):
                    if prefill is not None:
                        tracing.phase("prefill", *prefill)
                    tensors = {name: Tensor.of(array) for name, array in frames.items()}
                    spent = () if self._writer.position else (self._spent(),)
                    at = self._writer.position
                    chunk = CodecChunk(self._key, at, tensors, words, spent, said=said)
                    await self._writer.put(chunk)
                    self._text.begun.set()
                    self._starting.close()
                    self._engine.acknowledge(self._key)
                case CutShort():
                    cut_short = event
                case Finished() if cut_short is not None:
                    return self._stage.failure(Runaway.behind(cut_short.word))
                case Finished():
                    return self._stage.end("ok")
                case Failed(error):
                    return self._stage.failure(error)

    def _spent(self) -> Spent:
        now = time.monotonic()
        return Spent(subjects.TALKER.name, now - self._job.claimed_s, now - self._opened_s)

    def _restored(self) -> Arrays | None:
        chunks = [chunk for chunk in self._writer.restored if isinstance(chunk, CodecChunk)]
        if not chunks:
            return None
        # A talker of another release may have written some of them, with other fields.
        names = set.intersection(*(set(chunk.tensors) for chunk in chunks))
        return concatenate([{n: chunk.tensors[n].array() for n in names} for chunk in chunks])


async def _shielded(task: asyncio.Task[None]) -> None:
    """Wait for a task that goes on when the waiting is over."""
    await asyncio.shield(task)
