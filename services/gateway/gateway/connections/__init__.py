"""Connections before any protocol reads them: who may open them, how many, and for how long."""

from gateway.connections.descriptors import Budget, descriptor_budget
from gateway.connections.doors import ConnectionCounts, Doors
from gateway.connections.guarded import ConnectionLimits, GuardedHttp, GuardedWebSocket, overdue

__all__ = [
    "Budget",
    "ConnectionCounts",
    "ConnectionLimits",
    "Doors",
    "GuardedHttp",
    "GuardedWebSocket",
    "descriptor_budget",
    "overdue",
]
