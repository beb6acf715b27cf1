"""One JSON object with all of a request's audio in it, in base64."""

from __future__ import annotations

import base64
from abc import abstractmethod
from typing import Any, ClassVar

import msgspec

from gateway.audio import PcmBlock
from gateway.protocols.framing import Framing
from gateway.requests import Speech


class WholeJson(Framing):
    """Audio leaves as it comes; only what is told beside it waits for its end.

    field: what the audio is called.
    """

    media_type = "application/json"
    blames = "input"
    field: ClassVar[str]

    def __init__(self) -> None:
        self._head = b'{"' + self.field.encode() + b'":"'
        self._rest = b""

    @abstractmethod
    def beside(self) -> dict[str, Any]:
        """The other fields."""

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        data = self._rest + piece.data
        whole = len(data) - len(data) % 3  # three bytes are four characters
        self._rest = data[whole:]
        return self._encoded(data[:whole])

    def end(self, speech: Speech) -> bytes:
        return self._encoded(self._rest) + b'",' + msgspec.json.encode(self.beside())[1:]

    def _encoded(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + base64.b64encode(data)
