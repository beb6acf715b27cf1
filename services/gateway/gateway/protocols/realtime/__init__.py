"""OpenAI's Realtime: a socket of items and responses, and secrets for browsers."""

from gateway.protocols.realtime.secrets import router
from gateway.protocols.realtime.socket import RealtimeSession

__all__ = ["RealtimeSession", "router"]
