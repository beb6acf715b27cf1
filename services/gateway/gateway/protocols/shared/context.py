"""What a route works with."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends
from starlette.requests import ClientDisconnect, HTTPConnection, Request

from gateway.errors import MessageTooBig
from gateway.requests import GatewayContext, SpeechSpec
from ttscommon.wire.errors import BadRequest


def context_of(connection: HTTPConnection) -> GatewayContext:
    context: GatewayContext = connection.app.state.context
    return context


Context: TypeAlias = Annotated[GatewayContext, Depends(context_of)]


async def read_body(request: Request, limit: int) -> bytes:
    """Raises MessageTooBig before more than `limit` bytes are held; BadRequest if it is cut off."""
    parts = bytearray()
    try:
        async for part in request.stream():
            parts += part
            if len(parts) > limit:
                raise MessageTooBig(f"the body is over {limit} bytes")
    except ClientDisconnect as gone:
        raise BadRequest("the connection ended within the body") from gone
    return bytes(parts)


def chosen_headers(spec: SpeechSpec) -> dict[str, str]:
    """What a client's names came to, and which of its wishes were dropped."""
    ignored = {"x-ignored": ", ".join(spec.ignored)} if spec.ignored else {}
    return {"x-model": spec.model.name, "x-voice": spec.voice.id, **ignored}
