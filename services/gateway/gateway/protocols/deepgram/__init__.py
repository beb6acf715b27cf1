"""Deepgram's text-to-speech: `/v1/speak` over HTTP and WebSocket."""

from gateway.protocols.deepgram.http import router
from gateway.protocols.deepgram.socket import DeepgramSession

__all__ = ["DeepgramSession", "router"]
