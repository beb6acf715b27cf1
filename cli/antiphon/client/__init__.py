"""A small client of the gateway: streamed speech over the WebSocket, lists over HTTP."""

from antiphon.client.address import Address
from antiphon.client.lists import ServedModel, Voice, models, voices
from antiphon.client.talk import speak
from antiphon.client.terms import (
    Audio,
    Event,
    Finished,
    GatewayError,
    SpeechOptions,
    Started,
    Word,
    Words,
)

__all__ = [
    "Address",
    "Audio",
    "Event",
    "Finished",
    "GatewayError",
    "ServedModel",
    "SpeechOptions",
    "Started",
    "Voice",
    "Word",
    "Words",
    "models",
    "speak",
    "voices",
]
