"""ElevenLabs' text-to-speech: HTTP, `stream-input` and `multi-stream-input`."""

from gateway.protocols.elevenlabs.http import models, router
from gateway.protocols.elevenlabs.sockets import MultiStreamInput, StreamInput

__all__ = ["MultiStreamInput", "StreamInput", "models", "router"]
