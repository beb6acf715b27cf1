"""A fleet's parts: how many of each, their settings, and their times as measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

from antiphon_bench.plan import PlanError
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from ttsfamilies.fake import Seconds
from ttsfamilies.fake.codec import DecodeCurve
from ttsfamilies.fake.talker import StepCurve
from vocoder.settings import VocoderSettings

T = TypeVar("T")

SERVICES: Final = ("gateway", "talker", "vocoder")
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
    engines = read_engines(folder)
    return Curves(*engines, _read(folder / "costs.json", Costs, "antiphon bench costs"))


def read_engines(folder: Path) -> tuple[StepCurve, DecodeCurve]:
    """The step times of a talker and of a vocoder; raises PlanError."""
    talker = _read(folder / "talker.json", StepCurve, "antiphon calibrate")
    vocoder = _read(folder / "vocoder.json", DecodeCurve, "antiphon calibrate")
    if not talker.seconds(1, 0) or not vocoder.step_s(1, 1):
        raise PlanError(f"{folder}: a step takes no time by talker.json or vocoder.json")
    return talker, vocoder


def _read(path: Path, kind: type[T], command: str) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise PlanError(f"{path}: it is not there; `{command}` writes one") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise PlanError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Shape:
    """How many of each, and where. nodes: machines of `cores` cores that they are dealt out to;
    none: each has what it needs. beside: cores of the first that other programs take all the time.
    """

    gateways: int = 1
    talkers: int = 1
    vocoders: int = 1
    brokers: int = 1
    nodes: int = 0
    cores: float = 0.0
    beside: float = 0.0

    def counted(self) -> dict[str, int]:
        """Processes by kind."""
        return {kind: getattr(self, f"{kind}s") for kind in (*SERVICES, "broker")}


@dataclass(frozen=True)
class Setup:
    """Everything but the load. gateway, talker, vocoder: those services' own settings. weights: of
    keys.
    """

    curves: Curves
    shape: Shape = Shape()
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    talker: TalkerSettings = field(default_factory=TalkerSettings)
    vocoder: VocoderSettings = field(default_factory=VocoderSettings)
    weights: tuple[tuple[str, float], ...] = (("", 1.0),)
