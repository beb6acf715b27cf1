"""Connections before any protocol reads them: who may open them, how many, and for how long."""

from gateway.connections.descriptors import Budget, descriptor_budget
from gateway.connections.doors import Doors
from gateway.connections.guarded import GuardedHttp, GuardedWebSocket, Limits, overdue
from gateway.connections.places import Places

__all__ = [
    "Budget",
    "Doors",
    "GuardedHttp",
    "GuardedWebSocket",
    "Limits",
    "Places",
    "descriptor_budget",
    "overdue",
]
