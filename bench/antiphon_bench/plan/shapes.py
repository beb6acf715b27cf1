"""The parts of a simulated deployment: how many of each process, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
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
