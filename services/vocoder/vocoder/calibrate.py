"""`python -m vocoder.calibrate FILE`: measure the vocoder's step times, for `--engine fake`.

Settings are the vocoder's own, from the environment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

import msgspec
import numpy as np

from ttscommon.engine.runtime import Failed
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, Decoded, Work
from ttsfamilies.fake.codec import DecodeCurve
from vocoder.engine.engine import Engine
from vocoder.service import load_codec
from vocoder.settings import VocoderSettings

SHAPES: Final = ((1, 1), (1, 4), (1, 16), (2, 8), (4, 2), (4, 8), (8, 4), (16, 1), (16, 2))
_ROUNDS: Final = 5
# Turns of so many streams, each of so many frames: they fill no batch.
_TURNS: Final = (1, 4, 16)
_PIECE: Final = 2


def calibrate(
    codec: Codec,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    rounds: int = _ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[tuple[int, int], float]:
    """Median seconds of a step by (streams, frames)."""
    for shape in shapes:
        codec.measure(*shape)
    return {
        (streams, frames): median(codec.measure(streams, frames, clock) for _ in range(rounds))
        for streams, frames in shapes
    }


class TimedCodec:
    """A codec that counts how long it works."""

    def __init__(self, codec: Codec, clock: Callable[[], float]) -> None:
        self._codec = codec
        self._clock = clock
        self.worked_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codec, name)

    def launch(self, batch: Sequence[Work]) -> Any:
        began_s = self._clock()
        ticket = self._codec.launch(batch)
        self.worked_s += self._clock() - began_s
        return ticket

    def collect(self, ticket: Any) -> Sequence[Decoded]:
        began_s = self._clock()
        decoded = self._codec.collect(ticket)
        self.worked_s += self._clock() - began_s
        return decoded


def turns(
    codec: Codec, clock: Callable[[], float] = time.perf_counter, rounds: int = _ROUNDS
) -> dict[int, float]:
    """Median seconds of an engine's turn beside its codec's work, by streams. Nothing of a codec
    that does not decode without a recording.
    """
    found = {streams: _turn_s(codec, clock, streams, rounds) for streams in _TURNS}
    return {streams: round(s, 6) for streams, s in found.items() if s is not None}


def _turn_s(codec: Codec, clock: Callable[[], float], streams: int, rounds: int) -> float | None:
    timed, failed = TimedCodec(codec, clock), list[str]()
    engine = Engine(cast(Codec, timed), slots=streams, metrics=Metrics())
    engine.listen(lambda events: failed.extend(k for k, e in events if isinstance(e, Failed)))
    voice = codec.spec.voices[0].id if codec.spec.voices else ""
    keys = [f"turn-{number}" for number in range(streams)]
    for key in keys:
        engine.open(SpeechRequest(key, codec.spec.name, voice, ""))
    seconds = []
    for _ in range(rounds + 1):  # the first one opens them
        for key in keys:
            engine.feed(key, {n: f.zeros(_PIECE) for n, f in codec.spec.frame.items()})
        began_s, timed.worked_s = clock(), 0.0
        engine.step()
        seconds.append(max(0.0, clock() - began_s - timed.worked_s))
    for key in keys:
        engine.finish(key)
    while not engine.idle and not failed:
        engine.step()
    return None if failed else median(seconds[1:])


def fit(measured: Mapping[tuple[int, int], float]) -> DecodeCurve:
    """The curve closest to what was measured, in proportion; no part of it is negative."""
    rows = np.array([[1.0, streams, streams * frames] for streams, frames in measured])
    seconds = np.array(list(measured.values()))
    free = [0, 1, 2]
    while True:
        # What would be negative is left out, and the others are fitted again without it.
        weighted = rows[:, free] / seconds[:, None]
        found, *_ = np.linalg.lstsq(weighted, np.ones(len(seconds)), rcond=None)
        if (found >= 0.0).all():
            break
        free.pop(int(found.argmin()))
    parts = np.zeros(3)
    parts[free] = found
    base_s, stream_s, frame_s = (round(float(part), 7) for part in parts)
    return DecodeCurve(base_s=base_s, stream_s=stream_s, frame_s=frame_s)


def main(arguments: Sequence[str]) -> None:
    """Write the curve, and the points it was fitted to, to the file named."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m vocoder.calibrate FILE")
    settings = VocoderSettings.load()
    # A single thread's own time is what a step takes on a free core, whatever else runs here.
    clock = time.thread_time if settings.threads == 1 else time.perf_counter
    codec = load_codec(settings)
    measured = calibrate(codec, clock=clock)
    points = [[streams, frames, round(s, 6)] for (streams, frames), s in measured.items()]
    curve = msgspec.structs.replace(fit(measured), turn_s=turns(codec, clock))
    record = {**msgspec.to_builtins(curve), "measured": points}
    Path(arguments[0]).write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
