"""`POST /v1/realtime/client_secrets`: a key for a browser, which opens sessions for a while."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.protocols.fields import LenientMessage
from gateway.protocols.realtime.configuration import defaults, merged
from gateway.protocols.shared.context import Context, read_json
from gateway.protocols.shared.credentials import tenant_of
from gateway.requests import DEFAULT

router = APIRouter()

_SECONDS: Final = 600


class ExpiresAfter(LenientMessage):
    seconds: Annotated[int, Field(ge=10, le=7200)] = _SECONDS


class SecretBody(LenientMessage):
    """session: what the sessions that it opens begin with."""

    session: dict[str, Any] = Field(default_factory=dict)
    expires_after: ExpiresAfter = ExpiresAfter()


@router.post("/v1/realtime/client_secrets")
async def client_secret(request: Request, context: Context) -> dict[str, Any]:
    """A secret, when it expires, and what a session of it begins with."""
    tenant = tenant_of(context, request)
    body = SecretBody.parsed(await read_json(request, context.settings))
    settings = merged(defaults(DEFAULT), body.session)
    seconds = body.expires_after.seconds
    value, expires_at = await context.sessions.issue(tenant, body.session, seconds)
    return {"value": value, "expires_at": expires_at, "session": settings}
