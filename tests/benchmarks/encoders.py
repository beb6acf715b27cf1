"""Costs of a second of audio in every format: `python -m tests.benchmarks.encoders`.

One core, chunks of 160 ms as vocoders send them, a synthetic voice at 24 kHz.
"""

import time
from typing import Final, get_args

import numpy as np

from gateway.audio.encoders import encoder_for
from gateway.audio.formats import AudioFormat, Codec
from gateway.audio.resample import Pcm, StreamResampler, TimeStretch, resampler
from gateway.errors import Unsupported

_RATE: Final = 24_000
_SECONDS: Final = 20
_CHUNK: Final = _RATE * 160 // 1000


def main() -> None:
    """A table: milliseconds of a core for a second of audio, and audio needed for first bytes."""
    print("| | ms a second of audio | first bytes after ms of audio |\n| --- | --- | --- |")
    for codec in get_args(Codec):
        try:
            cost_ms, first_ms = of_codec(codec)
        except Unsupported as error:
            print(f"| {codec} | {error.message} | |")
            continue
        print(f"| {codec} | {cost_ms:.2f} | {first_ms:.0f} |")
    for name, stage in (
        ("16 to 24 kHz", resampler(16_000, 24_000)),
        ("speed 1.25", TimeStretch(_RATE, 1.25)),
        ("speed 0.8", TimeStretch(_RATE, 0.8)),
    ):
        print(f"| {name} | {of_stage(stage):.2f} | |")


def of_codec(codec: Codec) -> tuple[float, float]:
    """Milliseconds for a second of audio; milliseconds of audio before the first bytes."""
    voice = synthetic()
    encoder, needed, made = encoder_for(AudioFormat(codec), _RATE), 0, b""
    while not made:
        made = encoder.feed(voice[needed : needed + 240])
        needed += 240
    encoder = encoder_for(AudioFormat(codec), _RATE)
    began = time.process_time()
    for at in range(0, len(voice), _CHUNK):
        encoder.feed(voice[at : at + _CHUNK])
    encoder.finish()
    return 1e3 * (time.process_time() - began) / _SECONDS, 1e3 * needed / _RATE


def of_stage(stage: StreamResampler) -> float:
    voice = synthetic()
    began = time.process_time()
    for at in range(0, len(voice), _CHUNK):
        stage.feed(voice[at : at + _CHUNK])
    stage.flush()
    return 1e3 * (time.process_time() - began) / _SECONDS


def synthetic() -> Pcm:
    """A buzz with syllables and breath."""
    times = np.arange(_SECONDS * _RATE) / _RATE
    buzz = sum(np.sin(2 * np.pi * 140 * n * times) / n for n in range(1, 16))
    breath = np.random.default_rng(0).standard_normal(len(times))
    loud = np.clip(np.sin(2 * np.pi * 4 * times), 0, 1)
    return np.asarray(3500 * buzz * loud + 900 * breath * (1 - loud), np.int16)


if __name__ == "__main__":
    main()
