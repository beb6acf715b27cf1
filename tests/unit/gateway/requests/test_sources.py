"""What a request says to the talkers, and what a resume asks of the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest

from gateway.errors import NotFound
from gateway.requests.incremental import IncrementalText
from gateway.requests.sources import Attach, SpeechSpec, Submit
from gateway.requests.wishes import Wishes
from ttscommon.bus import Bus
from ttscommon.replicas import Model, Voice
from ttscommon.subjects import Log

MODEL = Model("m", "f", 24_000, 12.5, (Voice("v", "V", "mul"),))
SPEC = SpeechSpec(MODEL, MODEL.voices[0], 24_000)


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("live", [True, False])
async def test_how_a_text_is_told_depends_on_how_it_comes_and_never_on_when(
    asked: bool | None, live: bool
) -> None:
    spec = SpeechSpec(MODEL, MODEL.voices[0], 24_000, wishes=Wishes(non_streaming_mode=asked))
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
        told.add(source._job(5).whole_text)
    assert told == ({False} if asked is None and live else {asked})


@dataclass
class SlowBroker:
    """The last record of a log is known; its first cannot be read in time."""

    first_record: object

    @property
    def logs(self) -> SlowBroker:
        return self

    async def last(self, log: Log, request_id: str) -> SimpleNamespace:
        return SimpleNamespace(tenant="acme")

    async def first(self, log: Log, request_id: str) -> object:
        if isinstance(self.first_record, Exception):
            raise self.first_record
        return self.first_record


def attached(bus: SlowBroker, from_sample: int) -> Attach:
    spec = replace(SPEC, tenant="acme")
    return Attach(bus, spec, "r", from_sample, lambda: None)  # type: ignore[arg-type]


async def test_a_resume_goes_on_where_the_broker_is_too_busy_to_say_what_it_dropped() -> None:
    await attached(SlowBroker(TimeoutError()), 0).require()


async def test_a_resume_of_what_the_store_dropped_is_refused() -> None:
    dropped = SimpleNamespace(record=SimpleNamespace(start=100))
    await attached(SlowBroker(dropped), 100).require()
    with pytest.raises(NotFound):
        await attached(SlowBroker(dropped), 99).require()
