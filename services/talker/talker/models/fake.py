"""A family without a network: the full protocol with the step times of a measured curve.

Frames are a hash of (seed, frame), so a takeover or a lost chunk shows in the codes at once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from talker.models.base import (
    Arrays,
    Attend,
    ModelSpec,
    Plan,
    Rendered,
    Slice,
    TalkerModel,
    TalkerStream,
)
from ttscommon.curves import seconds_at
from ttscommon.errors import NothingToSay, UnknownVoice
from ttscommon.messages import SpeechRequest
from ttscommon.replicas import Voice

FRAME_RATE_HZ: Final = 25.0
CODEBOOKS: Final = 4
FRAMES_PER_CHARACTER: Final = 1.6
_VOICES: Final = tuple(Voice(id=v, name=v.upper(), language="en") for v in ("slt", "rms", "awb"))


class Curve(msgspec.Struct, frozen=True):
    """Seconds of a step by its streams, + `prefill_s` a prompt; and of rendering a chunk's frames.

    Where `step_s` has measured points they count, else `base_s` + `stream_s` a stream. Written by
    `antiphon calibrate`, or by hand.
    """

    base_s: float = 0.004
    stream_s: float = 0.0004
    prefill_s: float = 0.003
    step_s: dict[int, float] = {}
    render_base_s: float = 0.0
    render_frame_s: float = 0.0

    def seconds(self, streams: int, prompts: int) -> float:
        """A step of `streams` streams, `prompts` of which are prefilled in it."""
        if self.step_s:
            decoding = seconds_at(self.step_s, streams)
        else:
            decoding = self.base_s + self.stream_s * streams
        return decoding + self.prefill_s * prompts

    def render_seconds(self, frames: int) -> float:
        """Finishing `frames` frames, of however many streams."""
        return self.render_base_s + self.render_frame_s * frames


class FakeStream(TalkerStream):
    """Speaks FRAMES_PER_CHARACTER frames of hash for every character."""

    def __init__(self, request: SpeechRequest) -> None:
        self.seed = request.seed
        self._characters = len(request.text.strip())
        self._final = request.text_final
        self._frames = 0
        self._pending = 0
        self._cached = False

    @property
    def frames(self) -> int:
        return self._frames

    @property
    def pending(self) -> int:
        return self._pending

    @property
    def _limit(self) -> int:
        return int(self._characters * FRAMES_PER_CHARACTER)

    @property
    def done(self) -> bool:
        return self._final and self._frames >= self._limit

    def feed(self, text: str, *, final: bool) -> None:
        self._characters += len(text)
        self._final = self._final or final

    def restore(self, arrays: Arrays) -> None:
        self._frames = len(arrays["codes"])

    def plan(self) -> Plan | None:
        if self._frames >= self._limit:
            return None
        return Plan(1, 1) if self._cached else Plan(0, 2)

    def evict(self) -> None:
        self._cached = False

    def advance(self) -> None:
        """One frame more."""
        self._frames += 1
        self._pending += 1
        self._cached = True

    def take(self, count: int) -> range:
        """The indices of the oldest `count` pending frames."""
        first = self._frames - self._pending
        self._pending -= count
        return range(first, first + count)


class FakeModel(TalkerModel):
    """Sleeps as long as a real engine would compute."""

    def __init__(
        self, name: str, curve: Curve, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.spec = ModelSpec(name, "fake", 16_000, FRAME_RATE_HZ, _VOICES)
        self.measured_round_s = {
            size: curve.seconds(size, 0) + size * curve.render_frame_s for size in (1, 4, 16, 64)
        }
        self._curve = curve
        self._sleep = sleep

    @classmethod
    def load(cls, name: str, curve: Path | None) -> FakeModel:
        """Read the curve from JSON; the built-in one is that of a small CPU engine."""
        if curve is None:
            return cls(name, Curve())
        return cls(name, msgspec.json.decode(curve.read_bytes(), type=Curve))

    def open(self, request: SpeechRequest) -> FakeStream:
        if request.voice not in {voice.id for voice in _VOICES}:
            raise UnknownVoice(f"there is no voice {request.voice!r}", param="voice")
        if request.text_final and not any(c.isalnum() for c in request.text):
            raise NothingToSay("the text holds nothing that can be spoken", param="input")
        return FakeStream(request)

    def step(self, batch: Sequence[Slice], attend: Mapping[str, Attend]) -> None:
        prompts = sum(part.plan.start == 0 for part in batch)
        self._sleep(self._curve.seconds(len(batch), prompts))
        for part in batch:
            if isinstance(part.stream, FakeStream):
                part.stream.advance()

    def render(self, parts: Sequence[tuple[TalkerStream, int]]) -> list[Rendered]:
        if (rendering := self._curve.render_seconds(sum(count for _, count in parts))) > 0.0:
            self._sleep(rendering)
        rendered = []
        for stream, count in parts:
            assert isinstance(stream, FakeStream)
            codes = np.stack([fake_frame(stream.seed, frame) for frame in stream.take(count)])
            rendered.append(Rendered({"codes": codes}))
        return rendered


def fake_frame(seed: int, frame: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    """[codebooks] int16: what the fake talker says at `frame`, wherever it runs."""
    digest = hashlib.blake2b(f"{seed}:{frame}".encode(), digest_size=2 * CODEBOOKS).digest()
    return (np.frombuffer(digest, dtype="<u2") % 512).astype(np.int16)
