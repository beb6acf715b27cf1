"""A small client of the gateway: streamed speech over the WebSocket, lists over HTTP."""

from antiphon.client.gateway import (
    Address,
    Audio,
    Event,
    Finished,
    GatewayError,
    ServedModel,
    SpeechOptions,
    Started,
    Voice,
    Word,
    Words,
    models,
    voices,
)
from antiphon.client.talk import speak
