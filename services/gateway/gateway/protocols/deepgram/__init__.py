"""Deepgram's text-to-speech: `/v1/speak` and `/v2/speak`, over HTTP and WebSocket."""

from gateway.protocols.deepgram.http import asks, error_shape, model, models, router
from gateway.protocols.deepgram.sockets import DeepgramSession, FluxSession
