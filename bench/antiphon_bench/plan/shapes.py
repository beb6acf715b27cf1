"""The parts of a simulated deployment."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_bench.plan.costs import Curves, Edge
from antiphon_bench.plan.gateways import GatewaySetup
from antiphon_bench.plan.workers import TalkerSetup, VocoderSetup


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


@dataclass(frozen=True)
class Setup:
    """Everything but the load."""

    curves: Curves
    shape: Shape = Shape()
    gateway: GatewaySetup = field(default_factory=GatewaySetup)
    talker: TalkerSetup = field(default_factory=TalkerSetup)
    vocoder: VocoderSetup = field(default_factory=VocoderSetup)
