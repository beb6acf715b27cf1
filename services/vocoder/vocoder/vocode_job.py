"""One request on its way from the codec log, through the engine, into the audio log."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import msgspec
import structlog

from ttscommon.bus import AudioWriter, Bus
from ttscommon.cluster.references import References
from ttscommon.cluster.worker import Job
from ttscommon.engine.stage_job import EventRouter, StageJob
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, LogGone
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import End, Position
from vocoder.decoding import Codes, Decoding, Late, Unwanted
from vocoder.engine.interface import SoundEngine
from vocoder.engine.stream import Event, whole_length

_REFERENCE_TIMEOUT_S: Final = 10.0
# How long a listener may take to be heard of, where there seems to be none.
LISTENER_S: Final = 2.0

log_ = structlog.get_logger(__name__)


class VocodeJob:
    """Runs one job from where its listener stands to its End.

    A listener that asks for samples which are not at hand any more has them decoded again. One that
    takes nothing for a while has the job parked, and so has a text that is late: the job waits
    without a slot, and goes on behind what it sent.
    """

    def __init__(
        self,
        bus: Bus,
        engine: SoundEngine,
        router: EventRouter[Event],
        job: Job,
        writer: AudioWriter,
        codes_timeout_s: float,
    ) -> None:
        self._bus = bus
        self._engine = engine
        self._job = job
        self._writer = writer
        again = job.request.for_remaking()
        self._stage = StageJob(subjects.VOCODER, engine, router, job, writer, again)
        self._codes = Codes(bus, job, codes_timeout_s)
        self._conditions: Arrays | None = None

    async def run(self, start: Position | None) -> None:
        """Decode everything from `start` on, or from where a listener turns up, and write the End.

        Leaves no slot behind, whatever happens.
        """
        try:
            prefix = await self._prefix()
        except AntiphonError as error:
            await self._writer.end(self._stage.failure(error))
            return
        try:
            end = await self._decode(start, prefix)
        except LogGone as error:
            if self._writer.remaking is None:
                raise  # the worker ends it
            end = self._stage.failure(error)
        await self._writer.end(end)

    async def _decode(self, start: Position | None, prefix: Arrays | None) -> End:
        decoding = Decoding(
            self._stage, self._engine, self._job, self._writer, self._codes, self._conditions
        )
        found = start or await self._aside(self._unheard(prefix))
        while not isinstance(found, End):
            match await decoding.run(found, prefix):
                case Late(frame):
                    found = await self._aside(self._later(frame))
                case Unwanted():
                    found = await self._aside(self._parked(prefix))
                case End() | Position() as found:
                    pass
        return found

    async def _aside(self, waiting: Coroutine[Any, Any, End | Position]) -> End | Position:
        """What `waiting` brings, without a slot, and then with one again."""
        parked = self._job.park()
        await self._job.rest(True)
        found = await waiting
        await self._job.rest(False)
        if not parked or isinstance(found, End):
            return found
        cancelled = await self._stage.first(self._job.unpark())
        return cancelled or found

    async def _parked(self, prefix: Arrays | None) -> End | Position:
        """Wait until the listener takes more, or another comes, or there is none any more."""
        log_.info("audio.parked", request_id=self._job.request_id, position=self._writer.position)
        found = await self._stage.first(self._writer.wanted())
        return found or self._writer.remaking or await self._unheard(prefix)

    async def _later(self, frame: int) -> End | Position:
        """Wait until codes come that were not decoded, or a listener asks for what was."""
        log_.info("audio.awaits_codes", request_id=self._job.request_id, frame=frame)
        sought, coming = self._writer.sought(), self._more_codes(frame)
        found: End | Position | None = await self._stage.first(sought, coming)
        return found or self._codes_stopped()

    async def _more_codes(self, frame: int) -> End | Position:
        """Where to go on once codes have come from `frame` on; an End if none come in time."""
        async with self._codes.read(frame) as codes:
            came = await self._codes.next(codes) is not None
        return self._writer.last if came else self._codes_stopped()

    async def _unheard(self, prefix: Arrays | None) -> End | Position:
        """Decode nothing: wait for a listener, or until the codes say where it ends."""
        log_.info("audio.unheard", request_id=self._job.request_id)
        heard, ended = self._writer.heard(), self._end_of_codes(prefix)
        found: End | Position | None = await self._stage.first(heard, ended)
        return found or self._codes_stopped()

    async def _end_of_codes(self, prefix: Arrays | None) -> End:
        """The audio's End as the codes have it, some time after they have theirs."""
        async with self._codes.read() as codes:
            while not isinstance(record := await self._codes.next(codes), End):
                if record is None:
                    return self._codes_stopped()
        await asyncio.sleep(LISTENER_S)
        end = self._stage.end(record.outcome, record.code, record.message, record.param)
        if record.outcome == "cancelled":
            return end
        samples = whole_length(self._engine.spec, record.start, prefix)
        return msgspec.structs.replace(end, start=max(samples, end.start))

    def _codes_stopped(self) -> End:
        return self._stage.end("error", "internal", "the codes stopped coming")

    async def _prefix(self) -> Arrays | None:
        """Frames of the request's reference, if its voice is cloned from one. What the codec is
        told of it beside frames is kept.
        """
        reference = self._job.request.reference
        arrays = None
        if reference is not None and reference.derived:
            async with asyncio.timeout(_REFERENCE_TIMEOUT_S):
                arrays = await References(self._bus).derived(reference)
        self._conditions = self._engine.conditions(self._job.request, arrays)
        return self._engine.prefix(self._job.request, arrays)
