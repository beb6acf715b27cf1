"""What a request says to the talkers."""

from __future__ import annotations

from typing import cast

import pytest

from gateway.requests.incremental import IncrementalText
from gateway.requests.sources import SpeechSpec, Submit
from gateway.requests.wishes import Wishes
from ttscommon.bus import Bus
from ttscommon.replicas import Model, Voice

MODEL = Model("m", "f", 24_000, 12.5, (Voice("v", "V", "mul"),))


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
