"""The address of a gateway, and the key that this client calls it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from antiphon.client.terms import GatewayError

_SOCKETS = {"http": "ws", "https": "wss"}
_PAGES = {socket: page for page, socket in _SOCKETS.items()}


@dataclass(frozen=True)
class Address:
    """`url` begins with http:// or https:// and ends without a slash. `key`: the API key."""

    url: str
    key: str | None = None

    @classmethod
    def parse(cls, given: str, key: str | None = None) -> Self:
        """An address as people write it: without a scheme, with `/v1`, or of a socket.

        Raises GatewayError.
        """
        try:
            parts = urlsplit(given.strip() if "://" in given else f"http://{given.strip()}")
            scheme = _PAGES.get(parts.scheme, parts.scheme)
            if scheme not in _SOCKETS or not parts.hostname or parts.port == 0:
                raise ValueError
        except ValueError:
            hint = "give one such as http://127.0.0.1:8000"
            raise GatewayError(f"{given!r} is no address of a gateway; {hint}") from None
        path = parts.path.rstrip("/").removesuffix("/v1")
        return cls(urlunsplit((scheme, parts.netloc, path, "", "")), key)

    @property
    def socket(self) -> str:
        """The WebSocket that speaks."""
        scheme, rest = self.url.split("://", 1)
        return f"{_SOCKETS[scheme]}://{rest}/v1/audio/speech/stream"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    @property
    def silent(self) -> str:
        """What to say when no server answers there."""
        return f"no server answers at {self.url}; `antiphon up` starts one"
