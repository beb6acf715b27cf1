"""A codec without a network: a tone, with the step times of a measured curve.

The pitch follows the seed and each frame's loudness follows its codes, so that a lost, repeated
or foreign frame shows in the samples at once. What real codecs do and the default voice's does not
is switched on in `CodecManner`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from ttscommon.cluster.admission.capacity import seconds_at
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Samples, Work
from ttsfamilies.fake import CODEBOOK_SIZE, CODEBOOKS, VOICES, Counted, Seconds, fake_fields

_FRAME: Final = 640
_TAIL: Final = 352
_PITCH_HZ: Final = 150.0


class DecodeCurve(msgspec.Struct, frozen=True):
    """Seconds of a step: `base_s` + `stream_s` a stream + `frame_s` a frame (padding included).

    The defaults are the default voice's decoder on one CPU thread. For the planner, which the fake
    is not: turn_s, what the engine itself takes for a turn, by streams.
    """

    base_s: Seconds = 0.0064
    stream_s: Seconds = 0.0001
    frame_s: Seconds = 0.00019
    turn_s: dict[Counted, Seconds] = {}

    def step_s(self, streams: int, frames: int) -> float:
        """A step of `streams` streams, the longest of `frames` frames."""
        return self.base_s + self.stream_s * streams + self.frame_s * streams * frames

    def turn_seconds(self, streams: int) -> float:
        """What the engine does in a turn beside its codec's work."""
        return seconds_at(self.turn_s, streams) if self.turn_s else 0.0


@dataclass(frozen=True)
class CodecManner:
    """How this fake differs from a codec of ids that owes less than a frame.

    float_frames: a frame is floats, not ids (mel, latents). lookahead_frames: so many more are held
    back. grid: pieces end at multiples of so many frames, but for the last. reference_frames: so
    many frames of a reference come first, unheard. conditioned: a reference's vector is heard too.
    voices: preset ones. depth: see Codec.
    """

    float_frames: bool = False
    lookahead_frames: int = 0
    grid: int = 1
    reference_frames: int = 0
    conditioned: bool = False
    voices: bool = True
    depth: int = 0

    def __post_init__(self) -> None:
        if min(self.lookahead_frames, self.reference_frames, self.depth) < 0 or self.grid < 1:
            raise ValueError("counts are not negative, and a grid has a width")

    @property
    def frame(self) -> dict[str, Field]:
        return fake_fields(floats=self.float_frames)


@dataclass(frozen=True)
class FakeSpec(CodecSpec):
    """A spec that may have a grid."""

    grid: int = 1

    def cut(self, start: int, waiting: int, *, ended: bool) -> int:
        if ended:
            return waiting
        return max(0, (start + waiting) // self.grid * self.grid - start)


@dataclass
class _State:
    hertz: float
    position: int
    held_back: Samples = field(default_factory=lambda: np.zeros(0, np.float32))


class FakeCodec(Codec):
    """Sleeps as long as a real engine would compute."""

    def __init__(
        self,
        name: str,
        curve: DecodeCurve,
        sleep: Callable[[float], None] = time.sleep,
        manner: CodecManner = CodecManner(),
    ) -> None:
        self.spec = FakeSpec(
            name,
            "fake",
            sample_rate=16_000,
            samples_per_frame=_FRAME,
            frame=manner.frame,
            lag_samples=_TAIL + manner.lookahead_frames * _FRAME,
            context_frames=1 + manner.lookahead_frames,
            voices=VOICES if manner.voices else (),
            grid=manner.grid,
            conditions={"speaker": Field((2,), "f4")} if manner.conditioned else {},
        )
        self.depth = manner.depth
        shapes = ((1, 1), (1, 2), (1, 16), (4, 8), (16, 2))
        self.measured_step_s = {shape: curve.step_s(*shape) for shape in shapes}
        self._curve = curve
        self._sleep = sleep
        self._manner = manner

    @classmethod
    def load(cls, name: str, curve: Path | None) -> FakeCodec:
        """Read the curve from JSON; the built-in one is that of a small CPU engine."""
        if curve is None:
            return cls(name, DecodeCurve())
        return cls(name, msgspec.json.decode(curve.read_bytes(), type=DecodeCurve))

    def open(self, request: SpeechRequest, frame: int = 0) -> _State:
        known = {voice.id for voice in self.spec.voices}
        if known and request.voice not in known:
            raise UnknownVoice(f"there is no voice {request.voice!r}", param="voice")
        state = _State(_PITCH_HZ + request.seed % 200, frame * _FRAME)
        held_back = frame * _FRAME - self.spec.samples(frame, final=False)
        state.held_back = np.zeros(held_back, np.float32)
        return state

    def tell(self, state: _State, conditions: Arrays) -> None:
        state.hertz += float(conditions["speaker"][0].sum())

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        if not self._manner.reference_frames:
            return None
        shape = (self._manner.reference_frames, CODEBOOKS)
        codes = np.random.default_rng(request.seed).integers(0, CODEBOOK_SIZE, shape)
        if self._manner.float_frames:
            return {"latent": codes.astype(np.float32) / CODEBOOK_SIZE}
        return {"codes": codes.astype(np.int16)}

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        self._sleep(self._curve.step_s(len(batch), max(len(work) for work in batch)))
        return [Decoded(self._tone(work)) for work in batch]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _tone(self, work: Work) -> Samples:
        state = work.state
        (frames,) = work.frames.values()
        scale = 1.0 if self._manner.float_frames else 1.0 / CODEBOOK_SIZE
        loudness = 0.1 + 0.2 * frames.astype(np.float64).mean(axis=1) * scale
        count = len(frames) * _FRAME
        cycles = np.arange(state.position, state.position + count) * state.hertz
        tone = np.sin(2 * np.pi * cycles / self.spec.sample_rate) * np.repeat(loudness, _FRAME)
        ready = np.concatenate([state.held_back, tone.astype(np.float32)])
        cut = len(ready) if work.final else max(0, len(ready) - self.spec.lag_samples)
        state.position += count
        state.held_back = ready[cut:]
        return ready[:cut]
