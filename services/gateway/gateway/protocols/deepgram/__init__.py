"""Deepgram's text-to-speech: `/v1/speak` and `/v2/speak`, over HTTP and WebSocket."""

from gateway.protocols.deepgram.fields import error_shape
from gateway.protocols.deepgram.flux import FluxSession
from gateway.protocols.deepgram.http import asks, model, models, router
from gateway.protocols.deepgram.socket import DeepgramSession

__all__ = ["DeepgramSession", "FluxSession", "asks", "error_shape", "model", "models", "router"]
