"""Connections before any protocol reads them: who may open them, how many, and for how long."""

from gateway.connections.doors import ConnectionCounts, Doors, Entrance, affordable_connections
from gateway.connections.guarded import ConnectionLimits, GuardedHttp, GuardedWebSocket
