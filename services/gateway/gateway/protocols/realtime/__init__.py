"""OpenAI's Realtime: a socket of items and responses, and secrets for browsers."""

from gateway.protocols.realtime.secrets import router
from gateway.protocols.realtime.socket import RealtimeSession
from gateway.protocols.realtime.uploads import MOST_MESSAGE_BYTES

__all__ = ["MOST_MESSAGE_BYTES", "RealtimeSession", "router"]
