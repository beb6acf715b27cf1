"""A talker's model and a codec without sound: they count frames, and take the time of a curve.

What steps, waits, is cut and is sent first is decided by the project's own engines, which hold
these as they hold real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from talker.family.base import CacheSpec, Family, ModelSpec, Prepared
from talker.family.chunker import ChunkSeconds
from talker.family.runner import Results, Row
from talker.family.streams import Plan, SlotWriter, TalkerStream
from talker.models.fake import Curve as TalkerCurve
from ttscommon.engine.inflight import LaunchPath
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Array, Arrays, Field, rows
from ttscommon.wire.messages import SpeechRequest, WordTime
from ttscommon.wire.pieces import Piece
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.fake import Curve as VocoderCurve

NAME: Final = "planned"
# A frame's samples: so few that moving them costs nothing, and enough to tell parts of a frame.
SAMPLES: Final = 20
_FIELD: Final = {"codes": Field((1,), "i1")}
_MOST_ROWS: Final = 4096
_ZEROS: Final = np.zeros((_MOST_ROWS, 1), np.int8)
_STEPS: Final = np.zeros((_MOST_ROWS, 1, 1), np.int8)
_ENDLESS: Final = 1 << 40
_AGAIN: Final = Plan(1, 1, decode=True)
_SHAPES: Final = ((1, 1), (1, 2), (1, 16), (4, 8), (16, 2))

Sleep = Callable[[float], None]


def frames_of(count: int) -> dict[str, Array]:
    """So many frames that hold nothing."""
    return {"codes": _ZEROS[:count] if count <= _MOST_ROWS else np.zeros((count, 1), np.int8)}


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
        return _NOTHING

    def chunk(self, *_: object, **__: object) -> None:
        """Nothing is counted."""


class PlannedRequest(Prepared):
    """A text of so many frames."""

    def __init__(self, request: SpeechRequest) -> None:
        self.request = request

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[int]:
        """Lengths are known beforehand: nothing is read."""
        del pieces, final
        yield from ()


class PlannedStream(TalkerStream):
    """Says as many frames as it was fed, one a step."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt  # positions; 0 without a cache
        self._frames = self._pending = self._limit = self._cached = 0
        self._final = False

    @property
    def frames(self) -> int:
        return self._frames

    @property
    def pending(self) -> int:
        return self._pending

    @property
    def done(self) -> bool:
        return self._final and self._frames >= self._limit

    def feed(self, units: Sequence[int], *, final: bool) -> None:
        self._limit += sum(units)
        self._final = self._final or final

    def restore(self, arrays: Arrays) -> None:
        self._frames = rows(arrays)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry
        if self._frames + ahead >= self._limit:
            return None
        if not self._cached and not ahead:
            return Plan(0, max(1, self._prompt) + (self._frames if self._prompt else 0))
        return Plan(self._prompt + self._frames + ahead - 1, 1, True) if self._prompt else _AGAIN

    def inputs(self, plan: Plan) -> Arrays:
        del plan
        return {}

    def stage(self, write: SlotWriter) -> None:
        """There is no state to write."""

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        del ended
        self._cached = cached
        gained = len(frames["codes"])
        self._frames += gained
        self._pending += gained

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        self._pending -= count
        return frames_of(count), ()

    def evict(self) -> None:
        self._cached = 0


class PlannedRunner:
    """Every launch takes the time of its curve."""

    depth = 0
    width = 1

    def __init__(self, curve: TalkerCurve, sleep: Sleep) -> None:
        self._curve = curve
        self._sleep = sleep
        self._steps: dict[int, float] = {}

    def record(self, streams: int, positions: int) -> None:
        """Nothing is recorded."""

    def launch(self, batch: Sequence[Row]) -> Results:
        count = len(batch)
        prompts = sum(row.plan.start == 0 for row in batch)
        self._sleep(self._decoding(count) + self._curve.prefill_s * prompts)
        gained = [0 if row.plan.partial else 1 for row in batch]
        never = [False] * count
        kept = [row.plan.count for row in batch]
        return Results({"codes": _STEPS[:count]}, gained, never, never, kept)

    def collect(self, ticket: Results) -> Results:
        return ticket

    def paths(self, ticket: Results) -> Sequence[LaunchPath]:
        del ticket
        return ("eager",)

    def render(self, raw: Arrays) -> Arrays:
        if (took_s := self._curve.render_seconds(rows(raw))) > 0.0:
            self._sleep(took_s)
        return raw

    def _decoding(self, streams: int) -> float:
        if streams not in self._steps:
            self._steps[streams] = self._curve.seconds(streams, 0)
        return self._steps[streams]


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
        cache: Cache = Cache(),
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
            chunks=chunks,
        )
        self.measured_round_s = {
            size: curve.seconds(size, 0) + size * curve.render_frame_s for size in (1, 4, 16, 64)
        }
        self._curve, self._sleep, self._cache = curve, sleep, cache

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
        return PlannedRunner(self._curve, self._sleep)

    def examples(self) -> Sequence[str]:
        return ("Nothing is warmed up.",)


class PlannedCodec(Codec):
    """A codec that takes the time of a curve. A frame is `SAMPLES` samples of silence."""

    def __init__(
        self, curve: VocoderCurve, frame_rate_hz: float, lag_s: float, sleep: Sleep
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
        self._sleep = sleep

    def open(self, request: SpeechRequest, frame: int = 0) -> list[int]:
        """The number of frames decoded."""
        del request
        return [frame]

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        self._sleep(self._curve.step_s(len(batch), max(len(work) for work in batch)))
        return [Decoded(self._sound(work)) for work in batch]

    def collect(self, ticket: Any) -> Sequence[Decoded]:
        decoded: list[Decoded] = ticket
        return decoded

    def _sound(self, work: Work) -> np.ndarray[Any, np.dtype[np.float32]]:
        state: list[int] = work.state
        before = self.spec.samples(state[0], final=False)
        state[0] += len(work)
        return np.zeros(self.spec.samples(state[0], final=work.final) - before, np.float32)
