"""Clients: one module per way to talk to a speech server."""

from __future__ import annotations

from antiphon_bench.clients.base import Failure, Observation, SpeechClient
from antiphon_bench.clients.http import HttpClient
from antiphon_bench.clients.websocket import WebSocketClient
from antiphon_bench.config import Target


def open_client(target: Target) -> SpeechClient:
    """The client for the target's protocol, to be used as a context manager."""
    return WebSocketClient(target) if target.protocol == "ws" else HttpClient(target)
