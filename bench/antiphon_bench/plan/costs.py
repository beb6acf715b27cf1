"""A fleet's parts: how many of each, their settings, and their times as measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec

from antiphon_bench.plan import PlanError
from talker.engine.scheduler import StepLimits
from talker.settings import TalkerSettings
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.fake.codec import DecodeCurve
from ttsfamilies.fake.talker import StepCurve
from vocoder.engine.scheduler import BatchLimits
from vocoder.settings import VocoderSettings

T = TypeVar("T")
# No step lasts so long; a file in milliseconds is a mistake.
_LONGEST_STEP_S: Final = 10.0

Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=_LONGEST_STEP_S)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]
# Nor does an engine take so much more when it serves.
Factor = Annotated[float, msgspec.Meta(ge=0.1, le=10.0)]


class Edge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Processor seconds of a process, engine apart: of a request, and of a second of its sound.

    idle: cores that it takes for itself, without any request: heartbeats, reports, timers.
    refused_s: of a request that is refused; half of another's where that was not measured.
    """

    request_s: Seconds
    sound_s: Seconds
    idle: Seconds = 0.0
    refused_s: Seconds | None = None

    @property
    def refusal_s(self) -> float:
        """Of one that is refused."""
        return self.request_s / 2 if self.refused_s is None else self.refused_s

    @property
    def asked_s(self) -> float:
        """Of any, before it is judged: a refusal may cost less than half a request."""
        return min(self.request_s / 2, self.refusal_s)


class Slower(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many times as much processor time an engine takes where it serves as by its curve, which
    was measured with all of its data in caches: with one listener, and while all cores are busy.
    """

    alone: Factor = 1.0
    crowded: Factor = 1.0

    def at(self, crowding: float) -> float:
        """Where other cores are busy for so much of the time, 0 to 1."""
        return self.alone + (self.crowded - self.alone) * crowding


class Speech(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model says: its rate, how long a character lasts, and how it cuts chunks.

    lag_s: sound that its decoder holds back; lag_frames: what a talker counts of that. The rest:
    see ChunkSeconds.
    """

    frame_rate_hz: Positive
    seconds_per_character: Positive
    lag_s: Seconds = 0.0
    lag_frames: int = 0
    initial_s: Positive = 0.12
    regular_s: float = 1.0
    busy_growth: float = 2.0

    @property
    def chunks(self) -> ChunkSeconds:
        return ChunkSeconds(self.initial_s, self.regular_s, self.busy_growth)

    def frames(self, characters: int) -> int:
        """Frames of a text of so many characters."""
        return max(1, round(characters * self.seconds_per_character * self.frame_rate_hz))


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`costs.json`. source: how and where it was measured.

    hop_s: what a message takes from process to process beside their work. read_s: the reading of a
    text, before the engine has it; reading: what all of it takes of a processor. slower: of each
    engine, by stage. computes: engine steps take a core of their machine, which those of a GPU and
    of fakes do not.
    """

    source: str
    speech: Speech
    gateway: Edge
    broker: Edge
    talker: Edge
    vocoder: Edge
    hop_s: Seconds
    read_s: Seconds
    reading: Edge = Edge(0.0, 0.0)
    slower: dict[str, Slower] = {}
    computes: bool = True


class Curves(msgspec.Struct, frozen=True):
    """All that was measured of one model on one kind of machine."""

    talker: StepCurve
    vocoder: DecodeCurve
    costs: Costs


def read_curves(folder: Path) -> Curves:
    """Raises PlanError, with the command that writes what is missing."""
    talker, vocoder = read_talker(folder / "talker.json"), read_vocoder(folder / "vocoder.json")
    return Curves(talker, vocoder, _read(folder / "costs.json", Costs, "antiphon bench costs"))


def read_talker(path: Path) -> StepCurve:
    """A talker's step times; raises PlanError."""
    curve = _read(path, StepCurve, "antiphon calibrate")
    widths = [drafted.step_s for drafted in curve.drafts.values()]
    tables = [curve.step_s, curve.turn_s, curve.started_s, *widths]
    times = [curve.base_s, curve.stream_s, curve.prefill_s]
    times += [curve.render_base_s, curve.render_frame_s]
    _check(path, (*times, *(one for table in tables for one in table.values())))
    if any(streams < 1 for table in tables for streams in table):
        raise PlanError(f"{path}: a table names a step of less than one stream")
    for width, drafted in curve.drafts.items():
        if width < 1 or not drafted.step_s or not 1.0 <= drafted.gained <= width:
            raise PlanError(f"{path}: a step gains a frame or more, and not more than it tries")
    if curve.seconds(1, 0) <= 0.0:
        raise PlanError(f"{path}: a step takes no time")
    return curve


def read_vocoder(path: Path) -> DecodeCurve:
    """A vocoder's step times; raises PlanError."""
    curve = _read(path, DecodeCurve, "antiphon calibrate")
    _check(path, (curve.base_s, curve.stream_s, curve.frame_s, *curve.turn_s.values()))
    if curve.step_s(1, 1) <= 0.0:
        raise PlanError(f"{path}: a step takes no time")
    return curve


def _read(path: Path, kind: type[T], command: str) -> T:
    try:
        raw: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict)
        return msgspec.convert(raw, kind, str_keys=True)
    except FileNotFoundError:
        raise PlanError(f"{path}: it is not there; `{command}` writes one") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise PlanError(f"{path}: {error}") from error


def _check(path: Path, seconds: Iterable[float]) -> None:
    if any(not 0.0 <= one <= _LONGEST_STEP_S for one in seconds):
        raise PlanError(f"{path}: seconds lie between 0 and {_LONGEST_STEP_S:g}")


# Settings that no variable changes: what a worker does that is started without any.
TALKER: Final = TalkerSettings()
VOCODER: Final = VocoderSettings()


@dataclass(frozen=True)
class GatewaySetup:
    """A gateway's settings, by the names that it has them under. `weights`: of keys."""

    ttfp_target_s: float = 0.5
    utilisation: float = 0.85
    max_streams: int = 1000
    max_wait_s: float = 0.5
    first_audio_timeout_s: float = 15.0
    admission: bool = True
    weights: tuple[tuple[str, float], ...] = (("", 1.0),)


@dataclass(frozen=True)
class Shape:
    """How many of each, and where. nodes: machines of `cores` cores that they are dealt out to;
    none: each has what it needs. listeners: what the clients' own work takes of the first node.
    beside: cores of it that other programs take all the time.
    """

    gateways: int = 1
    talkers: int = 1
    vocoders: int = 1
    brokers: int = 1
    nodes: int = 0
    cores: float = 0.0
    listeners: Edge | None = None
    beside: float = 0.0

    def counted(self) -> dict[str, int]:
        """Processes by kind."""
        return {
            "gateway": self.gateways,
            "talker": self.talkers,
            "vocoder": self.vocoders,
            "broker": self.brokers,
        }


@dataclass(frozen=True)
class Setup:
    """Everything but the load. talker, vocoder: those services' own settings; a talker has a KV
    cache if they say of how many blocks. prompt: positions of a prompt in it.
    """

    curves: Curves
    shape: Shape = Shape()
    gateway: GatewaySetup = GatewaySetup()
    talker: TalkerSettings = TALKER
    vocoder: VocoderSettings = VOCODER
    prompt: int = 128

    @property
    def talker_limits(self) -> StepLimits:
        """Of a talker's step."""
        return StepLimits(self.talker.batch_streams, self.talker.batch_positions)

    @property
    def vocoder_limits(self) -> BatchLimits:
        """Of a vocoder's step."""
        return self.vocoder.limits(self.curves.costs.speech.frame_rate_hz)
