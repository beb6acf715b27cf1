"""A family without a network: the full protocol with the step times of a measured curve.

Frames are a hash of (seed, frame), so a takeover or a lost chunk shows in the codes at once. What
real families do and this project's own voice does not is switched on in `Manner`, and its caches,
where it has any, are checked in every step: a step on blocks that hold anything but the stream's
own positions gives other frames.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from ttscommon.cluster.admission.capacity import seconds_at
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field, rows
from ttscommon.wire.messages import SaidText, SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.pieces import Piece
from ttsfamilies.base.talker.base import CacheSpec, Family, ModelSpec, Prepared, known_voice
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.streams import (
    Plan,
    Results,
    Row,
    SlotWriter,
    Taken,
    TalkerStream,
    sequences,
)
from ttsfamilies.fake import CODEBOOK_SIZE, CODEBOOKS, VOICES, Counted, Seconds, fake_fields

FRAME_RATE_HZ: Final = 25.0
FRAMES_PER_CHARACTER: Final = 1.6
# Of an answer, and between numbers that are said in it.
ANSWER_CHARACTERS: Final = 20
SAID_FRAMES: Final = 5
PROMPT: Final = 2
_ENDLESS: Final = 1 << 40
_PARAMETERS: Final = (Parameter("salt", "integer", 0, "Other frames for the same seed.", 0, 1e6),)


class Drafted(msgspec.Struct, frozen=True):
    """Steps in which each stream tries so many frames: seconds by streams, and how many it gains
    in the mean.
    """

    step_s: Annotated[dict[Counted, Seconds], msgspec.Meta(min_length=1)]
    gained: Annotated[float, msgspec.Meta(ge=1.0)] = 1.0

    def accepted(self, width: int) -> float:
        """How likely each drafted frame is accepted behind those before it, where a step that
        tries `width` frames gains so many: 1 + p + ... + p ** (width - 1).
        """
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            enough = sum(middle**n for n in range(width)) >= self.gained
            low, high = (low, middle) if enough else (middle, high)
        return (low + high) / 2


class StepCurve(msgspec.Struct, frozen=True):
    """Seconds of a step by its streams, + `prefill_s` a prompt; and of rendering a chunk's frames.

    Where `step_s` has measured points they count, else `base_s` + `stream_s` a stream. Written by
    `antiphon calibrate`, or by hand. A model that drafts gains a frame in `step_s` at the width
    that gains most.

    For the planner, which the fake is not: `drafts`, steps by width. turn_s: what the engine itself
    takes for a turn, by streams. started_s: a round by streams as an engine finds it when it
    starts. rounds: most steps of a launch, one behind the other; times are of one.
    """

    base_s: Seconds = 0.004
    stream_s: Seconds = 0.0004
    prefill_s: Seconds = 0.003
    step_s: dict[Counted, Seconds] = {}
    render_base_s: Seconds = 0.0
    render_frame_s: Seconds = 0.0
    drafts: dict[Counted, Drafted] = {}
    turn_s: dict[Counted, Seconds] = {}
    started_s: dict[Counted, Seconds] = {}
    rounds: Counted = 1

    def __post_init__(self) -> None:
        if any(drafted.gained > width for width, drafted in self.drafts.items()):
            raise ValueError("a step gains no more frames than it tries")

    def seconds(self, streams: int, prompts: int) -> float:
        """A step of `streams` streams, `prompts` of which are prefilled in it."""
        if self.step_s:
            decoding = seconds_at(self.step_s, streams)
        else:
            decoding = self.base_s + self.stream_s * streams
        return decoding + self.prefill_s * prompts

    def step_seconds(self, width: int, streams: int) -> float:
        """A step that tries `width` frames of each stream."""
        if width in self.drafts:
            return seconds_at(self.drafts[width].step_s, streams)
        return self.seconds(streams, 0)

    def turn_seconds(self, streams: int) -> float:
        """What the engine does in a turn beside its model's work."""
        return seconds_at(self.turn_s, streams) if self.turn_s else 0.0

    def render_seconds(self, frames: int) -> float:
        """Finishing `frames` frames, of however many streams."""
        return self.render_base_s + self.render_frame_s * frames


@dataclass(frozen=True)
class Manner:
    """How this fake differs from a family that gains one frame of ids a step.

    steps_per_frame: only every so many steps gain a frame (Orpheus). frames_per_step: a step gains
    1 to so many frames if it tries as many (speculative decoding). float_frames: a frame is floats,
    not ids. voices: preset ones; without any, every name is accepted (cloning). cached: it has a KV
    cache, and positions. sequence_frames: so many frames, then the sequence ends and another
    begins. turns: it goes on from turns, which its frames tell apart, and answers one that is said
    to it with frame numbers. branches: most of a stream; one
    with an even seed has one less.
    """

    steps_per_frame: int = 1
    frames_per_step: int = 1
    float_frames: bool = False
    voices: bool = True
    cached: bool = False
    sequence_frames: int = _ENDLESS
    max_positions: int = 1024
    turns: bool = False
    branches: int = 1

    def __post_init__(self) -> None:
        if min(self.steps_per_frame, self.frames_per_step, self.sequence_frames) < 1:
            raise ValueError("steps and frames are counted from one")
        if self.steps_per_frame > 1 and self.frames_per_step > 1:
            raise ValueError("several steps a frame, or several frames a step")

    @property
    def frame(self) -> dict[str, Field]:
        return fake_fields(floats=self.float_frames)


class FakePrepared(Prepared):
    """Characters are all there is to read."""

    def __init__(self, request: SpeechRequest) -> None:
        self.request = request
        self._begun = self._spoken = False
        self._space = ""  # counts only if more follows

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[int]:
        """Counts of characters without outer white space, however the text is cut."""
        text = self._space + "".join(str(getattr(piece, "text", "")) for piece in pieces)
        text = text if self._begun else text.lstrip()
        said = text.rstrip()
        self._space = text[len(said) :]
        self._begun = self._begun or bool(said)
        self._spoken = self._spoken or any(c.isalnum() for c in said)
        if final and not self._spoken:
            if not spoken_to(self.request):
                raise NothingToSay("the text holds nothing that can be spoken", param="input")
            yield ANSWER_CHARACTERS
        yield len(said)


def spoken_to(request: SpeechRequest) -> bool:
    """Whether the last turn is one that was said."""
    return bool(request.turns) and request.turns[-1].sound is not None


def fake_said(frames: int) -> str:
    """What is said with so many frames of an answer."""
    return "".join(f"{frame} " for frame in range(0, frames, SAID_FRAMES))


class FakeStream(TalkerStream):
    """Speaks FRAMES_PER_CHARACTER frames of hash for every character."""

    def __init__(self, request: SpeechRequest, manner: Manner) -> None:
        self.seed = request.seed
        self._manner = manner
        self._says = manner.turns and spoken_to(request)
        self._fed = self._taken = 0  # frames whose text was told, or is to be
        self._characters = 0
        self._final = False
        self._frames = 0
        self._begun = 0  # the sequence's first frame
        self._steps = 0  # of the sequence
        self._cached = 0
        self._pending: list[Array] = []
        self._staged = False

    @property
    def frames(self) -> int:
        return self._frames

    @property
    def branches(self) -> int:
        return max(1, self._manner.branches - (self.seed + 1) % 2)

    @property
    def _limit(self) -> int:
        return int(self._characters * FRAMES_PER_CHARACTER)

    @property
    def done(self) -> bool:
        return self._final and self._frames >= self._limit

    def feed(self, units: Sequence[int], *, final: bool) -> None:
        self._characters += sum(units)
        self._final = self._final or final

    def restore(self, arrays: Arrays) -> None:
        self._taken = self._fed = rows(arrays)
        self._stand(rows(arrays))

    def _stand(self, frames: int) -> None:
        """Behind so many frames."""
        self._frames = frames
        self._begun = self._frames - self._frames % self._manner.sequence_frames
        self._steps = (self._frames - self._begun) * self._manner.steps_per_frame

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # frames never wait for text that may be made up for
        if self._frames + ahead // self._manner.steps_per_frame >= self._limit:
            return None
        end = PROMPT + self._steps + ahead
        if self._cached or ahead:
            return Plan(end - 1, 1, decode=True)
        return Plan(0, end)

    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        return {}

    def stage(self, write: SlotWriter) -> None:
        if not self._staged:
            self._staged = True
            write("frame", self._frames)
            write("step", self._steps)
            write("begun", self._begun)
            write("seed", self.seed)
        write("limit", self._limit)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        self._cached = cached
        self._steps = cached - PROMPT + 1
        (gained,) = frames.values()
        if count := len(gained):
            self._frames += count
            self._pending.append(gained)
        if ended:
            self._begun, self._steps = self._frames, 0
            self._cached, self._staged = 0, False

    def take(self, count: int) -> Taken:
        (name,) = self._manner.frame
        frames = np.concatenate(self._pending)
        self._pending = [frames[count:]]
        self._taken += count
        return Taken({name: frames[:count]}, said=self._said())

    def _said(self) -> tuple[SaidText, ...]:
        told, self._fed = fake_said(self._fed), self._taken
        text = fake_said(self._taken)[len(told) :]
        at_s = self._taken / FRAME_RATE_HZ
        return (SaidText(len(told), text, at_s),) if self._says and text else ()

    def rewind(self, frames: int) -> None:
        if frames < self._frames:
            self._pending = [np.concatenate(self._pending)[: frames - self._taken]]
            self._stand(frames)
        self._cached, self._staged = 0, False


class FakeRunner:
    """Keeps slots and caches as a device would, and sleeps as long as one would compute."""

    def __init__(self, model: FakeModel, slots: int, blocks: int, depth: int) -> None:
        self.depth = depth
        self.width = model.manner.frames_per_step
        self._model = model
        self._manner = model.manner
        self._state = {
            name: np.zeros(slots, np.int64)
            for name in ("seed", "frame", "step", "begun", "limit", "over")
        }
        self._cells = np.zeros(max(1, blocks) * BLOCK_POSITIONS, np.int64)
        self._free_at_s = 0.0

    def record(self, streams: int, positions: int) -> None:
        """Nothing is recorded."""

    def launch(self, batch: Sequence[Row]) -> tuple[float, Results]:
        for row in batch:
            row.stage(_Writer(self._state, row.slot))
        prompts = sum(row.plan.start == 0 for row in batch)
        took_s = self._model.curve.seconds(len(batch), prompts)
        if not self.depth:
            self._model.sleep(took_s)
            return 0.0, self._compute(batch)
        self._free_at_s = max(self._free_at_s, self._model.clock()) + took_s
        return self._free_at_s, self._compute(batch)

    def collect(self, ticket: tuple[float, Results]) -> Results:
        ready_s, results = ticket
        if self.depth and (rest_s := ready_s - self._model.clock()) > 0.0:
            self._model.sleep(rest_s)
        return results

    def paths(self, ticket: tuple[float, Results]) -> Sequence[LaunchPath]:
        return ("eager",)

    def render(self, raw: Arrays) -> Arrays:
        if (rendering := self._model.curve.render_seconds(rows(raw))) > 0.0:
            self._model.sleep(rendering)
        return raw

    def _compute(self, batch: Sequence[Row]) -> Results:
        slots = np.array([row.slot for row in batch])
        sound = np.array([self._attend(row) for row in batch])
        prompts = np.array([row.plan.start == 0 for row in batch])
        sampling = np.array([not row.plan.partial for row in batch])
        state, manner = self._state, self._manner
        state["over"][slots[prompts]] = 0
        active = sampling & (state["over"][slots] == 0)
        state["step"][slots] += active  # of the certain position; drafted ones follow
        whole = active & (state["step"][slots] % manner.steps_per_frame == 0)
        first, seeds = state["frame"][slots], state["seed"][slots]
        tried = np.array([row.plan.count if row.plan.decode else 1 for row in batch])
        gained = np.minimum(1 + (seeds + first) % manner.frames_per_step, tried)
        left = np.minimum(state["limit"][slots], state["begun"][slots] + manner.sequence_frames)
        gained = np.where(whole, np.minimum(gained, np.maximum(left - first, 0)), 0)
        frames = fake_frames(
            np.where(sound, seeds, ~seeds)[:, None],
            first[:, None] + np.arange(manner.frames_per_step),
        )
        state["frame"][slots] += gained
        state["step"][slots] += np.maximum(gained - 1, 0)
        ended = active & (state["frame"][slots] - state["begun"][slots] >= manner.sequence_frames)
        state["begun"][slots] = np.where(ended, state["frame"][slots], state["begun"][slots])
        state["step"][slots] = np.where(ended, 0, state["step"][slots])
        state["over"][slots] |= ended
        (name,) = manner.frame
        given = frames / np.float32(CODEBOOK_SIZE) if manner.float_frames else frames
        return Results(
            {name: given},
            gained.tolist(),
            ended.tolist(),
            [False] * len(batch),
            [self._keep(row, count) for row, count in zip(batch, gained.tolist(), strict=True)],
        )

    def _keep(self, row: Row, gained: int) -> int:
        """How many of the plan's positions stay; drafts that were not accepted are spoilt."""
        if not row.plan.decode or row.plan.count == 1:
            return row.plan.count
        kept = max(1, gained)
        if self._manner.cached:
            for branch in sequences([row]):
                self._cells[self._places(branch)[row.plan.start + kept :]] = -1
        return kept

    def _attend(self, row: Row) -> bool:
        """Write the plan's positions into the cache; whether all of the stream's are there."""
        if not self._manner.cached:
            return True
        held = [self._holds(branch) for branch in sequences([row])]
        return all(held)

    def _holds(self, row: Row) -> bool:
        """The same of one branch."""
        end, cells = row.plan.end, self._places(row)
        begun = int(self._state["begun"][row.slot])
        known = int(self._state["seed"][row.slot]) * 7919 + begun * 104729 + np.arange(end)
        known += row.branch << 40
        self._cells[cells[row.plan.start :]] = known[row.plan.start :]
        return bool((self._cells[cells] == known).all())

    @staticmethod
    def _places(row: Row) -> Array:
        """The cells of positions 0 .. end."""
        blocks = np.array(row.blocks[: -(-row.plan.end // BLOCK_POSITIONS)])
        cells = blocks[:, None] * BLOCK_POSITIONS + np.arange(BLOCK_POSITIONS)
        return cells.reshape(-1)[: row.plan.end]


class _Writer:
    def __init__(self, state: dict[str, Array], slot: int) -> None:
        self._state, self._slot = state, slot

    def __call__(self, name: str, value: Any, at: int = 0) -> None:
        self._state[name][self._slot] = value


class FakeModel(Family):
    """Sleeps as long as a real engine would compute."""

    examples = ("A fake is always warm.",)

    def __init__(
        self,
        name: str,
        curve: StepCurve,
        sleep: Callable[[float], None] = time.sleep,
        manner: Manner = Manner(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = ModelSpec(
            name,
            "fake",
            16_000,
            FRAME_RATE_HZ,
            VOICES if manner.voices else (),
            frame=manner.frame,
            caches={"cells": CacheSpec(1, 1, 1, 1)} if manner.cached else {},
            max_positions=manner.max_positions if manner.cached else _ENDLESS,
            width=manner.frames_per_step,
            branches=manner.branches,
            chunks=ChunkSeconds(),
            accepts=frozenset(("turns", "speaker", "speech") if manner.turns else ()),
            says=manner.turns,
            parameters=_PARAMETERS if manner.turns else (),
        )
        self.measured_round_s = {
            size: curve.seconds(size, 0) + size * curve.render_frame_s for size in (1, 4, 16, 64)
        }
        self.curve, self.manner, self.sleep, self.clock = curve, manner, sleep, clock

    @classmethod
    def load(cls, name: str, curve: Path | None) -> FakeModel:
        """Read the curve from JSON; the built-in one is that of a small CPU engine."""
        if curve is None:
            return cls(name, StepCurve(), manner=Manner(turns=True))
        measured = msgspec.json.decode(curve.read_bytes(), type=StepCurve)
        return cls(name, measured, manner=Manner(turns=True))

    @property
    def revision(self) -> str:
        return "fake"

    def derive(self, recording: bytes) -> Arrays:
        """A recording of any kind is a number."""
        return {"sound": np.array([zlib.crc32(recording)], "u4").astype("i4")}

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> FakePrepared:
        if self.manner.turns:
            request = self._seeded(request, derived.turns)
        if self.spec.voices:
            known_voice(request.voice, (voice.id for voice in self.spec.voices))
        return FakePrepared(request)

    def _seeded(self, request: SpeechRequest, turns: Sequence[Arrays | None]) -> SpeechRequest:
        """The request with a seed that tells its turns, its speaker and its parameters apart."""
        told: list[Any] = [request.speaker] if request.speaker else []
        told += [value for value in completed(_PARAMETERS, request.extra_params).values() if value]
        for turn, sound in zip(request.turns, turns, strict=True):
            told += [turn.speaker, turn.text, None if sound is None else int(sound["sound"][0])]
        seed = request.seed ^ zlib.crc32(repr(told).encode()) if told else request.seed
        return msgspec.structs.replace(request, seed=seed)

    def open(self, prepared: Prepared) -> FakeStream:
        return FakeStream(prepared.request, self.manner)

    def runner(self, rows: int, blocks: int, depth: int) -> FakeRunner:
        return FakeRunner(self, rows, blocks, depth)


def fake_frames(seeds: Array, frames: Array) -> np.ndarray[Any, np.dtype[np.int16]]:
    """[..., codebooks] int16: what fake talkers with `seeds` [...] say at `frames` [...]."""
    with np.errstate(over="ignore"):
        value = seeds.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + frames.astype(np.uint64)
        for multiplier in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
            value = (value ^ (value >> np.uint64(30))) * np.uint64(multiplier)
        value ^= value >> np.uint64(31)
    shifts = np.arange(CODEBOOKS, dtype=np.uint64) * np.uint64(16)
    return ((value[..., None] >> shifts) % np.uint64(CODEBOOK_SIZE)).astype(np.int16)


def fake_frame(seed: int, frame: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    """[codebooks] int16: what the fake talker says at `frame`, wherever it runs."""
    return fake_frames(np.array(seed), np.array(frame))
