"""Resume tokens: the holder of the token that a gateway gave its caller may hear on. Pure.

A request's id is in every log; a token is not. It is made of the id, the caller's name and a secret
that all gateways share, so that any of them can check it and none has to keep it.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence
from typing import Self

import structlog

from gateway.errors import NotFound
from gateway.settings import GatewaySettings

log_ = structlog.get_logger(__name__)


class ResumeTokens:
    """The first of the keys signs; all of them are accepted, so that they can be rotated."""

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise ValueError("there is at least one key")
        self._keys = [key.encode() for key in keys]

    @classmethod
    def of(cls, settings: GatewaySettings) -> Self:
        """Without a secret of the deployment's, this process's own: no resuming elsewhere."""
        given = settings.resume_keys
        if not given:
            log_.warning("resume.no_secret", setting="ANTIPHON_RESUME_SECRET")
        return cls(given or [secrets.token_urlsafe(32)])

    def issue(self, request_id: str, tenant: str) -> str:
        """43 characters."""
        return _sign(self._keys[0], request_id, tenant)

    def require(self, token: str | None, request_id: str, tenant: str) -> None:
        """Raises NotFound: who may not hear a request does not learn that it exists."""
        given = (token or "").encode()
        right = (_sign(key, request_id, tenant).encode() for key in self._keys)
        if not any(hmac.compare_digest(given, each) for each in right):
            raise NotFound("there is no such request for this token", param="request_id")


def _sign(key: bytes, request_id: str, tenant: str) -> str:
    """Ids and names hold no colon, so no two pairs are written alike."""
    digest = hmac.digest(key, f"resume:{request_id}:{tenant}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
