"""Connections before any protocol reads them: who may open them, how many, and for how long."""

from gateway.connections.doors import Budget, ConnectionCounts, Doors, Entrance, descriptor_budget
from gateway.connections.guarded import ConnectionLimits, GuardedHttp, GuardedWebSocket, overdue
