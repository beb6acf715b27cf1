"""What a request says to the talkers, and what a resume asks of the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest

from gateway.errors import NotFound
from gateway.requests.incremental import IncrementalText
from gateway.requests.options import RequestOptions, SpeechSpec
from gateway.requests.sources import Attach, Submit
from ttscommon.bus import Bus
from ttscommon.bus.logs.logstore import StoredRecord
from ttscommon.wire.messages import End, LogRecord, Position
from ttscommon.wire.replicas import Model, Voice
from ttscommon.wire.subjects import AUDIO, CODES, Log

MODEL = Model("m", "f", 24_000, 12.5, (Voice("v", "V", "mul"),))
SPEC = SpeechSpec(MODEL, MODEL.voices[0], 24_000)


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("live", [True, False])
async def test_how_a_text_is_told_depends_on_how_it_comes_and_never_on_when(
    asked: bool | None, live: bool
) -> None:
    spec = SpeechSpec(
        MODEL, MODEL.voices[0], 24_000, options=RequestOptions(non_streaming_mode=asked)
    )
    told = set()
    for complete in (True, False):
        given = IncrementalText.whole("Hello.", 100)
        if live:
            given = IncrementalText(100)
            given.add("Hello. ")
            if complete:
                given.finish()
        source = Submit(cast(Bus, None), spec, given, "request-1")
        await source.prepare(0.0)
        told.add(source._job(5, 0.0).whole_text)
    assert told == ({False} if asked is None and live else {asked})


# A second of MODEL.
SECOND = 24_000
ENDED = End("r", 10 * SECOND, "ok")


@dataclass
class Broker:
    """The last record of the audio log is known; the first of the codes perhaps not in time."""

    first_codes: object
    last_audio: LogRecord = ENDED
    looked_at: Log = AUDIO

    def log(self, kind: Log, request_id: str) -> Broker:
        self.looked_at = kind
        return self

    async def last(self) -> StoredRecord:
        assert self.looked_at is AUDIO
        return StoredRecord(7, self.last_audio, "", "acme")

    async def first(self) -> object:
        assert self.looked_at is CODES
        if isinstance(self.first_codes, Exception):
            raise self.first_codes
        return self.first_codes


def attached(bus: Broker, from_sample: int) -> Attach:
    spec = replace(SPEC, tenant="acme")
    return Attach(bus, spec, "r", from_sample, lambda: None)  # type: ignore[arg-type]


async def test_a_resume_goes_on_where_the_broker_is_too_busy_to_say_what_it_dropped() -> None:
    await attached(Broker(TimeoutError()), 0).require()


async def test_a_resume_of_what_the_store_dropped_is_refused() -> None:
    dropped = SimpleNamespace(record=SimpleNamespace(start=25))  # two seconds of codes
    await attached(Broker(dropped), 2 * SECOND).require()
    with pytest.raises(NotFound):
        await attached(Broker(dropped), 2 * SECOND - 1).require()
    with pytest.raises(NotFound):
        await attached(Broker(None), 2 * SECOND).require()


async def test_who_has_heard_it_all_needs_no_codes() -> None:
    await attached(Broker(None), 10 * SECOND).require()


async def test_codes_that_are_not_committed_yet_are_no_codes_that_are_gone() -> None:
    await attached(Broker(None, Position("r", SECOND)), 0).require()
