"""A talker's model and a codec without sound: they count frames, and take the time of a curve.

What steps, waits, is cut and is sent first is decided by the project's own engines, which hold
these as they hold real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, Final

import numpy as np

from antiphon_bench.plan.costs import Curves
from ttscommon.engine.inflight import LaunchPath
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.base.talker.base import Family, ModelSpec, Prepared
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.streams import Plan, Results, Row, SlotWriter, Taken, TalkerStream
from ttsfamilies.fake.talker import FakePrepared, StepCurve

NAME: Final = "planned"
# A frame's samples: so few that moving them costs nothing, and enough to tell parts of a frame.
SAMPLES: Final = 20
_FIELD: Final = {"codes": Field((1,), "i1")}
_ZEROS: Final = np.zeros((4096, 64, 1), np.int8)
_PROMPT: Final = Plan(0, 1)
_AGAIN: Final = Plan(1, 1, decode=True)

Sleep = Callable[[float], None]


class Unmeasured(Metrics):
    """Metrics of an engine that is not watched: half of a turn would be counting."""

    def __init__(self) -> None:
        """No metric is registered."""

    def __getattr__(self, name: str) -> Unmeasured:
        setattr(self, name, self)  # found without this from now on
        return self

    def __call__(self, *_: object, **__: object) -> Unmeasured:
        return self

    chunk = __call__  # type: ignore[assignment]


def frames_of(count: int) -> dict[str, Array]:
    """So many frames that hold nothing."""
    return {"codes": _ZEROS[:count, 0] if count <= len(_ZEROS) else np.zeros((count, 1), np.int8)}


class PlannedStream(TalkerStream):
    """Says as many frames as it was fed, as many in a step as its launch gave."""

    def __init__(self) -> None:
        self._frames = self._limit = 0
        self._final = self._begun = False

    @property
    def frames(self) -> int:
        return self._frames

    @property
    def left(self) -> int:
        """Frames of what it was fed that are still to come."""
        return self._limit - self._frames

    @property
    def done(self) -> bool:
        return self._final and self._frames >= self._limit

    def feed(self, units: Sequence[int], *, final: bool) -> None:
        self._limit += sum(units)
        self._final = self._final or final

    def restore(self, arrays: Arrays) -> None:
        self._frames = rows(arrays)

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        if self._frames + ahead >= self._limit:
            return None
        return _AGAIN if self._begun or ahead else _PROMPT

    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        return {}

    def stage(self, write: SlotWriter) -> None:
        """There is no state to write."""

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._begun = True
        self._frames += len(frames["codes"])

    def take(self, count: int) -> Taken:
        return Taken(frames_of(count))

    def rewind(self, frames: int) -> None:
        self._frames, self._begun = frames, False


class PlannedRunner:
    """Every launch takes the time of its curve. Drafted frames are accepted by dice, as often as
    they were when the curve was measured.
    """

    depth = 0

    def __init__(self, curve: StepCurve, sleep: Sleep, think: Sleep) -> None:
        """`sleep` computes for so long, `think` does what the engine does beside its model."""
        self.width = max(curve.drafts, default=1)
        self._curve = curve
        self._sleep, self._think = sleep, think
        self._decoding, self._turn_s = cache(curve.step_seconds), cache(curve.turn_seconds)
        self._accepted = {width: drafted.accepted(width) for width, drafted in curve.drafts.items()}
        self._dice = Random("drafts")

    def record(self, streams: int, positions: int) -> None:
        """Nothing is recorded."""

    def launch(self, batch: Sequence[Row]) -> Results:
        prompts = sum(not row.plan.decode for row in batch)
        # As wide in each row; beside a prompt there is one plain step.
        plan = _AGAIN if prompts else batch[0].plan
        took_s = plan.rounds * self._decoding(plan.width, len(batch))
        self._sleep(took_s + self._curve.prefill_s * prompts)
        self._think(self._turn_s(len(batch)))
        gained = [self._gained(row) for row in batch]
        kept = [n if row.plan.decode else row.plan.count
                for row, n in zip(batch, gained, strict=True)]  # fmt: skip
        never = [False] * len(batch)
        return Results({"codes": _ZEROS[: len(batch), : max(gained)]}, gained, never, never, kept)

    def collect(self, ticket: Results) -> Results:
        return ticket

    def paths(self, ticket: Results) -> Sequence[LaunchPath]:
        return ("eager",)

    def render(self, raw: Arrays) -> Arrays:
        if (took_s := self._curve.render_seconds(rows(raw))) > 0.0:
            self._sleep(took_s)
        return raw

    def _gained(self, row: Row) -> int:
        """Frames of each round: the certain one, and drafted ones up to the first that is not
        accepted.
        """
        plan, gained, dice = row.plan, 0, self._dice
        if not plan.decode:
            return int(not plan.partial)
        assert isinstance(row.stream, PlannedStream)
        for _ in range(plan.rounds):
            most = min(gained + plan.width, row.stream.left)
            gained = min(gained + 1, most)
            while gained < most and dice.random() < self._accepted[plan.width]:
                gained += 1
        return gained


class PlannedModel(Family):
    """A talker's model that takes the time of a curve."""

    def __init__(self, curves: Curves, sleep: Sleep, think: Sleep) -> None:
        curve, speech = curves.talker, curves.costs.speech
        rendering = curve.render_base_s > 0.0 or curve.render_frame_s > 0.0
        self.spec = ModelSpec(
            *(NAME, NAME, round(speech.frame_rate_hz * SAMPLES), speech.frame_rate_hz, ()),
            frame=_FIELD,
            raw=_FIELD if rendering else {},
            max_positions=1 << 40,
            width=max(curve.drafts, default=1),
            rounds=curve.rounds,
            chunks=ChunkSeconds(speech.initial_s, speech.regular_s, speech.busy_growth),
            lag_frames=speech.lag_frames,
        )
        self.measured_round_s = curve.started_s or {
            size: curve.seconds(size, 0) + size * curve.render_frame_s for size in (1, 4, 16, 64)
        }
        self._curve, self._sleep, self._think = curve, sleep, think

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Prepared:
        return FakePrepared(request)  # its length is known: nothing is read

    def open(self, prepared: Prepared) -> PlannedStream:
        return PlannedStream()

    def runner(self, rows: int, blocks: int, depth: int) -> PlannedRunner:
        return PlannedRunner(self._curve, self._sleep, self._think)


class PlannedCodec(Codec):
    """A codec that takes the time of a curve. A frame is `SAMPLES` samples of silence."""

    def __init__(self, curves: Curves, sleep: Sleep, think: Sleep) -> None:
        curve, speech = curves.vocoder, curves.costs.speech
        rate = round(speech.frame_rate_hz * SAMPLES)
        lag = round(speech.lag_s * rate)
        self.spec = CodecSpec(
            *(NAME, NAME, rate, SAMPLES),
            frame=_FIELD,
            lag_samples=lag,
            context_frames=1 + lag // SAMPLES,
        )
        shapes = ((1, 1), (1, 2), (1, 16), (4, 8), (16, 2))
        self.measured_step_s = {shape: curve.step_s(*shape) for shape in shapes}
        self._curve, self._sleep, self._think = curve, sleep, think

    def open(self, request: SpeechRequest, frame: int = 0) -> list[int]:
        """The number of frames decoded."""
        return [frame]

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        self._sleep(self._curve.step_s(len(batch), max(len(work) for work in batch)))
        self._think(self._curve.turn_seconds(len(batch)))
        return [Decoded(self._sound(work)) for work in batch]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _sound(self, work: Work) -> np.ndarray[Any, np.dtype[np.float32]]:
        state: list[int] = work.state
        before = self.spec.samples(state[0], final=False)
        state[0] += len(work)
        return np.zeros(self.spec.samples(state[0], final=work.final) - before, np.float32)
