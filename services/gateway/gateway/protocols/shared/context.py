"""What a route works with."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from fastapi import Depends
from starlette.requests import ClientDisconnect, HTTPConnection, Request

from gateway.errors import MessageTooBig
from gateway.requests import GatewayContext, SpeechSpec
from gateway.requests.text import unread_scripts
from ttscommon.wire.errors import BadRequest

# Families whose frontend reads the scripts of Europe and leaves out all others.
_READS_ENGLISH_ALONE: Final = frozenset({"vesper"})


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


def chosen_headers(spec: SpeechSpec, text: str) -> dict[str, str]:
    """What a client's names came to, and which of its wishes and parts of its text are dropped."""
    dropped = [*spec.ignored]
    if spec.model.family in _READS_ENGLISH_ALONE:
        dropped += [f"text:{script}" for script in unread_scripts(text)]
    ignored = {"x-ignored": ", ".join(dropped)} if dropped else {}
    return {"x-model": spec.model.name, "x-voice": spec.voice.id, **ignored}
