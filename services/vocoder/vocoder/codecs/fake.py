"""A codec without a network: a tone, with the step times of a measured curve.

The pitch follows the seed and each frame's loudness follows its codes, so that a lost, repeated
or foreign frame shows in the samples at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from ttscommon.errors import UnknownVoice
from ttscommon.replicas import Voice
from vocoder.codecs.base import Codec, CodecSpec, Codes, Samples, Work

_VOICES: Final = tuple(Voice(id=v, name=v.upper(), language="en") for v in ("slt", "rms", "awb"))
_CODEBOOK_SIZE: Final = 512
_FRAME: Final = 640
_TAIL: Final = 352


class Curve(msgspec.Struct, frozen=True):
    """Seconds of a step: `base_s` + `stream_s` a stream + `frame_s` a frame (padding included).

    The defaults are the default voice's decoder on one CPU thread.
    """

    base_s: float = 0.0064
    stream_s: float = 0.0001
    frame_s: float = 0.00019

    def step_s(self, streams: int, frames: int) -> float:
        """A step of `streams` streams, the longest of `frames` frames."""
        return self.base_s + self.stream_s * streams + self.frame_s * streams * frames


@dataclass
class _State:
    hertz: float
    sample_rate: int
    position: int = 0
    held_back: Samples = field(default_factory=lambda: np.zeros(0, np.float32))


class FakeCodec(Codec):
    """Sleeps as long as a real engine would compute."""

    def __init__(
        self, name: str, curve: Curve, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.spec = CodecSpec(
            name,
            "fake",
            sample_rate=16_000,
            samples_per_frame=_FRAME,
            codebooks=4,
            codebook_size=_CODEBOOK_SIZE,
            tail_samples=_TAIL,
            context_frames=1,
            voices=_VOICES,
        )
        shapes = ((1, 1), (1, 2), (1, 16), (4, 8), (16, 2))
        self.measured_step_s = {shape: curve.step_s(*shape) for shape in shapes}
        self._curve = curve
        self._sleep = sleep

    @classmethod
    def load(cls, name: str, curve: Path | None) -> FakeCodec:
        """Read the curve from JSON; the built-in one is that of a small CPU engine."""
        if curve is None:
            return cls(name, Curve())
        return cls(name, msgspec.json.decode(curve.read_bytes(), type=Curve))

    def open(self, seed: int, voice: str, frame: int = 0) -> _State:
        if voice not in {known.id for known in _VOICES}:
            raise UnknownVoice(f"there is no voice {voice!r}", param="voice")
        state = _State(150.0 + seed % 200, self.spec.sample_rate, frame * _FRAME)
        if frame:
            state.held_back = np.zeros(_TAIL, np.float32)
        return state

    def decode(self, batch: Sequence[Work]) -> list[Samples]:
        longest = max(len(work.codes) for work in batch)
        self._sleep(self._curve.step_s(len(batch), longest))
        return [self._tone(work.state, work.codes, work.final) for work in batch]

    def _tone(self, state: _State, codes: Codes, final: bool) -> Samples:
        count = len(codes) * self.spec.samples_per_frame
        cycles = np.arange(state.position, state.position + count) * state.hertz / state.sample_rate
        loudness = 0.1 + 0.2 * codes.astype(np.float64).mean(axis=1) / _CODEBOOK_SIZE
        tone = np.sin(2 * np.pi * cycles) * np.repeat(loudness, self.spec.samples_per_frame)
        ready = np.concatenate([state.held_back, tone.astype(np.float32)])
        cut = len(ready) if final else max(0, len(ready) - self.spec.tail_samples)
        state.position += count
        state.held_back = ready[cut:]
        return ready[:cut]
