"""OpenAI's Realtime: a socket of items and responses, and secrets for browsers."""

from gateway.protocols.realtime.hearing import MOST_MESSAGE_BYTES
from gateway.protocols.realtime.record import router
from gateway.protocols.realtime.socket import RealtimeSession
