"""A talker's model and a codec without sound: they count frames, and take the time of a curve.

What steps, waits, is cut and is sent first is decided by the project's own engines, which hold
these as they hold real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from antiphon_bench.plan.spoken import PlannedRequest, PlannedStream
from antiphon_bench.plan.steps import PlannedRunner
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.base.talker.base import CacheSpec, Family, ModelSpec, Prepared
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.fake.codec import Curve as VocoderCurve
from ttsfamilies.fake.talker import Curve as TalkerCurve

NAME: Final = "planned"
# A frame's samples: so few that moving them costs nothing, and enough to tell parts of a frame.
SAMPLES: Final = 20
_FIELD: Final = {"codes": Field((1,), "i1")}
_ENDLESS: Final = 1 << 40
_SHAPES: Final = ((1, 1), (1, 2), (1, 16), (4, 8), (16, 2))

Sleep = Callable[[float], None]


class _Nothing:
    """Takes whatever a metric takes."""

    def labels(self, *_: object) -> _Nothing:
        return self

    def inc(self, amount: float = 1) -> None: ...
    def set(self, value: float) -> None: ...
    def observe(self, value: float) -> None: ...


_NOTHING: Final = _Nothing()


class Unmeasured(Metrics):
    """Metrics of an engine that is not watched: half of a turn would be counting."""

    def __init__(self) -> None:
        """No metric is registered."""

    def __getattr__(self, name: str) -> _Nothing:
        setattr(self, name, _NOTHING)  # found without this from now on
        return _NOTHING

    def chunk(self, *_: object, **__: object) -> None:
        """Nothing is counted."""


@dataclass(frozen=True)
class Cache:
    """A talker's KV cache: its blocks, and the positions of a prompt. None of both without one."""

    blocks: int = 0
    prompt: int = 0


class PlannedModel(Family):
    """A talker's model that takes the time of a curve."""

    def __init__(
        self,
        curve: TalkerCurve,
        frame_rate_hz: float,
        chunks: ChunkSeconds,
        sleep: Sleep,
        think: Sleep,
        cache: Cache = Cache(),
        lag_frames: int = 0,
    ) -> None:
        rendering = curve.render_base_s > 0.0 or curve.render_frame_s > 0.0
        self.spec = ModelSpec(
            NAME,
            "planned",
            round(frame_rate_hz * SAMPLES),
            frame_rate_hz,
            (),
            frame=_FIELD,
            raw=_FIELD if rendering else {},
            caches={"kv": CacheSpec(1, 1, 1, 1)} if cache.blocks else {},
            max_positions=_ENDLESS,
            width=max(curve.drafts, default=1),
            chunks=chunks,
            lag_frames=lag_frames,
        )
        self.measured_round_s = curve.started_s or {
            size: curve.seconds(size, 0) + size * curve.render_frame_s for size in (1, 4, 16, 64)
        }
        self._curve, self._sleep, self._think, self._cache = curve, sleep, think, cache

    def prepare(
        self,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> PlannedRequest:
        del reference, turns
        return PlannedRequest(request)

    def open(self, prepared: Prepared) -> PlannedStream:
        return PlannedStream(self._cache.prompt if self._cache.blocks else 0)

    def runner(self, rows: int, blocks: int, depth: int) -> PlannedRunner:
        del rows, blocks, depth
        return PlannedRunner(self._curve, self._sleep, self._think)

    def examples(self) -> Sequence[str]:
        return ("Nothing is warmed up.",)


class PlannedCodec(Codec):
    """A codec that takes the time of a curve. A frame is `SAMPLES` samples of silence."""

    def __init__(
        self,
        curve: VocoderCurve,
        frame_rate_hz: float,
        lag_s: float,
        sleep: Sleep,
        think: Sleep,
    ) -> None:
        rate = round(frame_rate_hz * SAMPLES)
        lag = round(lag_s * rate)
        self.spec = CodecSpec(
            NAME,
            "planned",
            rate,
            SAMPLES,
            frame=_FIELD,
            lag_samples=lag,
            context_frames=1 + lag // SAMPLES,
        )
        self.measured_step_s: Mapping[tuple[int, int], float] = {
            shape: curve.step_s(*shape) for shape in _SHAPES
        }
        self._curve = curve
        self._sleep, self._think = sleep, think

    def open(self, request: SpeechRequest, frame: int = 0) -> list[int]:
        """The number of frames decoded."""
        del request
        return [frame]

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        count, longest = len(batch), max(len(work) for work in batch)
        self._sleep(self._curve.step_s(count, longest))
        self._think(self._curve.turn_seconds(count))
        return [Decoded(self._sound(work)) for work in batch]

    def collect(self, ticket: Any) -> Sequence[Decoded]:
        decoded: list[Decoded] = ticket
        return decoded

    def _sound(self, work: Work) -> np.ndarray[Any, np.dtype[np.float32]]:
        state: list[int] = work.state
        before = self.spec.samples(state[0], final=False)
        state[0] += len(work)
        return np.zeros(self.spec.samples(state[0], final=work.final) - before, np.float32)
