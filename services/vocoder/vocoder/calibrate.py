"""`python -m vocoder.calibrate FILE`: measure the vocoder's step times, for `--engine fake`.

Settings are the vocoder's own, from the environment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np

from vocoder.codecs.base import Codec
from vocoder.codecs.fake import Curve
from vocoder.service import load_codec
from vocoder.settings import VocoderSettings

SHAPES: Final = ((1, 1), (1, 4), (1, 16), (2, 8), (4, 2), (4, 8), (8, 4), (16, 1), (16, 2))
_ROUNDS: Final = 5


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


def fit(measured: Mapping[tuple[int, int], float]) -> Curve:
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
    return Curve(base_s=base_s, stream_s=stream_s, frame_s=frame_s)


def main(arguments: Sequence[str]) -> None:
    """Write the curve, and the points it was fitted to, to the file named."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m vocoder.calibrate FILE")
    settings = VocoderSettings.load()
    # A single thread's own time is what a step takes on a free core, whatever else runs here.
    clock = time.thread_time if settings.threads == 1 else time.perf_counter
    measured = calibrate(load_codec(settings), clock=clock)
    points = [[streams, frames, round(s, 6)] for (streams, frames), s in measured.items()]
    record = {**msgspec.to_builtins(fit(measured)), "measured": points}
    Path(arguments[0]).write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
