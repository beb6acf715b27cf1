"""The parts of a simulated deployment: how many of each process, and their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from antiphon_bench.plan.costs import Curves, Edge
from talker.engine.scheduler import StepLimits
from talker.settings import TalkerSettings
from vocoder.engine.scheduler import BatchLimits
from vocoder.settings import VocoderSettings

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
class Cache:
    """A talker's KV cache: its blocks, and the positions of a prompt. None of both without one."""

    blocks: int = 0
    prompt: int = 0


@dataclass(frozen=True)
class TalkerSetup:
    """A talker's settings, by the names that it has them under."""

    slots: int = TALKER.slots
    limits: StepLimits = field(default_factory=StepLimits)
    cache: Cache = field(default_factory=Cache)

    @classmethod
    def of(cls, slots: int | None, batch: int | None, cache: Cache) -> TalkerSetup:
        """With `slots` streams, of which a step takes `batch`; None for a talker's own setting."""
        limits = StepLimits(batch or TALKER.batch_streams, TALKER.batch_positions)
        return cls(slots or TALKER.slots, limits, cache)


@dataclass(frozen=True)
class VocoderSetup:
    """A vocoder's settings, by the names that it has them under."""

    slots: int = VOCODER.slots
    limits: BatchLimits = field(default_factory=BatchLimits)

    @classmethod
    def of(cls, slots: int | None, frame_rate_hz: float) -> VocoderSetup:
        """With `slots` streams, None for its own setting; steps as it makes them at that rate."""
        return cls(slots or VOCODER.slots, VOCODER.limits(frame_rate_hz))


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
    """Everything but the load."""

    curves: Curves
    shape: Shape = Shape()
    gateway: GatewaySetup = field(default_factory=GatewaySetup)
    talker: TalkerSetup = field(default_factory=TalkerSetup)
    vocoder: VocoderSetup = field(default_factory=VocoderSetup)
