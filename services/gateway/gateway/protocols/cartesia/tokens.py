"""`POST /access-token`: a key for a browser, which speaks for a while."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError

from gateway import errors
from gateway.protocols.cartesia.fields import error_shape
from gateway.protocols.fields import LenientMessage
from gateway.protocols.shared.context import Context, read_json
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.shapes import shaped

router = APIRouter(dependencies=[shaped(error_shape)])

_MOST_S: Final = 3600


class TokenBody(LenientMessage):
    """Seconds. What is granted besides speech means nothing here."""

    expires_in: Annotated[int, Field(ge=1, le=_MOST_S)] = _MOST_S


@router.post("/access-token")
async def access_token(request: Request, context: Context) -> dict[str, Any]:
    """A token that stands for the caller's key; a token makes none."""
    tenant = tenant_of(context, request)
    data = (await read_json(request, context.settings)).data
    try:
        body = TokenBody.model_validate_json(data)
    except ValidationError as error:
        raise errors.from_validation(error) from error
    value, _ = await context.sessions.issue(tenant, {}, body.expires_in)
    return {"token": value}
