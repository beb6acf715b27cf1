"""Speech without a bus: what calibration, warm-up, training, tests and offline use stand on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from talker.engine.engine import Engine
from talker.engine.stream import Event
from ttscommon.engine.runtime import Failed
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.fields import Array, Arrays, Derived, concatenate
from ttscommon.wire.messages import SaidText, SpeechRequest, WordTime
from ttscommon.wire.pieces import unmarked
from ttsfamilies.base.talker.base import check
from ttsfamilies.base.talker.streams import CutShort, Taken


@dataclass
class SynthesizedSpeech:
    """A request's frames, chunk by chunk, its word times, and its error if it failed.

    said: what the model said of its own. cut_short: some of its text was left.
    """

    request: SpeechRequest
    chunks: list[Arrays] = field(default_factory=list)
    words: list[WordTime] = field(default_factory=list)
    said: list[SaidText] = field(default_factory=list)
    error: Exception | None = None
    cut_short: CutShort | None = None

    @property
    def arrays(self) -> dict[str, Array]:
        """All frames, [frames, ...]; raises what the request failed with."""
        if self.error is not None:
            raise self.error
        return concatenate(self.chunks) if self.chunks else {}


def synthesise(
    engine: Engine,
    requests: Sequence[SpeechRequest],
    restored: Mapping[str, Arrays] | None = None,
    reference: Arrays | None = None,
    turns: Sequence[Arrays | None] = (),
) -> list[SynthesizedSpeech]:
    """Speak all requests, as many at once as the engine has slots, by turning it here.

    The engine must not have been started. restored: frames that a request begins behind, by
    request id. reference, turns: what was derived of their recordings, the same for all of them.
    """
    derived = Derived(reference, tuple(turns))
    spoken = {request.request_id: SynthesizedSpeech(request) for request in requests}
    waiting = deque(spoken.values())
    opened: set[str] = set()
    engine.listen(partial(_hear, engine, spoken, opened))
    while waiting or opened:
        while waiting and len(opened) < engine.capacity:
            one = waiting.popleft()
            if _open(engine, one, (restored or {}).get(one.request.request_id), derived):
                opened.add(one.request.request_id)
        if opened:
            engine.step()
    if not engine.idle:
        engine.step()  # what was launched ahead of the last end
    return list(spoken.values())


def _open(
    engine: Engine, spoken: SynthesizedSpeech, restored: Arrays | None, derived: Derived
) -> bool:
    """Whether the engine has the request now; if not, it has its error."""
    request = spoken.request
    try:
        check(engine.spec, request)
        prepared = engine.family.prepare(request, derived)
        pieces = unmarked(request.text, request.marks, request.spans)
        units = list(prepared.read(pieces, final=True))
    except AntiphonError as error:
        spoken.error = error
        return False
    engine.open(prepared, restored, units, final=True)
    return True


def _hear(
    engine: Engine,
    spoken: Mapping[str, SynthesizedSpeech],
    opened: set[str],
    events: Sequence[tuple[str, Event]],
) -> None:
    for key, event in events:
        if isinstance(event, Taken):
            spoken[key].chunks.append(event.frames)
            spoken[key].words.extend(event.words)
            spoken[key].said.extend(event.said)
            engine.acknowledge(key)
        elif isinstance(event, CutShort):
            spoken[key].cut_short = event
        else:
            spoken[key].error = event.error if isinstance(event, Failed) else None
            opened.discard(key)
