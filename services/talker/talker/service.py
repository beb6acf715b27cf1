"""The talker as a service: a model, an engine, and a worker that claims jobs for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from talker.adapters import AdapterLibrary, Adapters
from talker.engine.interface import ReadingFamily, SpeechEngine
from talker.engine.stream import Event
from talker.loading import build_engine
from talker.settings import TalkerSettings
from talker.talk_job import TalkJob
from talker.text_feed import ReadingTurns, TextTiming
from ttscommon.bus import Bus
from ttscommon.cluster.worker import Handler, Job
from ttscommon.engine.interface import Build
from ttscommon.engine.stage import serve_stage
from ttscommon.engine.stage_job import EventRouter, ending
from ttscommon.process.service import Service
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.lookups import (
    Found,
    Lookup,
    PhonesWanted,
    Refused,
    Style,
    decode_lookup,
    encode,
)
from ttscommon.wire.messages import End
from ttscommon.wire.tensors import Tensor

_LETTERS: Final = "this model reads letters or tokens, and no phones"
_NO_TABLES: Final = "the voices of this model are no tables that could be combined"

log_ = structlog.get_logger(__name__)


async def serve(
    service: Service,
    settings: TalkerSettings,
    build: Callable[[TalkerSettings], Build[SpeechEngine]] = lambda own: partial(build_engine, own),
) -> None:
    """Run a talker until the service stops; raises what killed the engine, if anything did.

    build: of one model's engine, if that is elsewhere.
    """
    await serve_stage(
        *(service, settings, subjects.TALKER, build, _handler),
        feeds=subjects.VOCODER,
        answer=lambda engine: partial(answered, engine.family),
    )


def _handler(settings: TalkerSettings, bus: Bus, engine: SpeechEngine) -> Handler:
    timing = TextTiming(settings.text_timeout_s)
    return Talker(bus, engine, timing, _adapters(settings, bus, engine)).handle


def _adapters(settings: TalkerSettings, bus: Bus, engine: SpeechEngine) -> Adapters | None:
    """None for a model that is served without."""
    model = engine.family.adapters
    if model is None:
        return None
    library = AdapterLibrary(settings.adapter_dir, engine.spec.adapters)
    return Adapters(bus, model, library, settings.adapter_bytes, engine.metrics)


class Talker:
    """Speaks one job after another into their codec logs."""

    def __init__(
        self,
        bus: Bus,
        engine: SpeechEngine,
        timing: TextTiming = TextTiming(),  # noqa: B008
        adapters: Adapters | None = None,
    ) -> None:
        """To be made on the event loop."""
        self._bus = bus
        self._adapters = adapters
        self._engine = engine
        self._timing = timing
        self._turns = ReadingTurns()
        self._router: EventRouter[Event] = EventRouter()
        engine.listen(self._router)

    async def handle(self, job: Job) -> None:
        """Speak the job's request from wherever its log ends; returns once the log has its end."""
        request = job.request
        writer = await self._bus.writer(
            subjects.CODES, request.request_id, job.epoch, tenant=request.tenant
        )
        async with ending(job, writer):
            if writer.ended:  # its writer may have died before it queued the vocoders' job
                await self._bus.submit(subjects.VOCODER, request)
            elif sum(chunk.end - chunk.start for chunk in writer.restored) < writer.position:
                await writer.end(_beginning_gone(request.request_id, writer.position))
            else:
                talking = TalkJob(
                    *(self._bus, self._engine, self._router, job, writer, self._timing),
                    *(self._adapters, self._turns),
                )
                await talking.run()


def _beginning_gone(request_id: str, position: int) -> End:
    """Frames follow from those before, so without the first ones no successor can go on."""
    message = "the store was too full to keep the beginning of the request"
    return End(request_id, position, "error", "internal", message)


async def answered(family: ReadingFamily, asked: bytes) -> bytes:
    """The answer to a question, or why there is none."""
    try:
        found = await asyncio.to_thread(_found, family, decode_lookup(asked))
    except AntiphonError as error:
        found = Refused(error.code, error.message, error.param)
    except Exception as error:
        log_.exception("lookup.failed", error=str(error))
        found = Refused(AntiphonError.code, "the model failed")
    return encode(found)


def _found(family: ReadingFamily, asked: Lookup) -> Found:
    if isinstance(asked, PhonesWanted):
        phones = family.phones(asked.text, asked.language)
        return phones or Refused("unsupported", _LETTERS, "model")
    rows = family.style(asked.voice)
    if rows is None:
        return Refused("unsupported", _NO_TABLES, "model")
    return Style(Tensor.of(rows))
