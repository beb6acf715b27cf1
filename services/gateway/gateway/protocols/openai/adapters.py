"""Adapters over HTTP: uploaded, listed and deleted by the key that owns them."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request

from gateway.errors import WrongContentType
from gateway.protocols.shared.context import Context, chunks
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.forms import read_form
from gateway.requests.adapters import StoredAdapter
from ttscommon.cluster.adapters.config import MOST_BYTES
from ttscommon.wire.errors import BadRequest

router = APIRouter()

_PATH: Final = "/v1/audio/adapters"
_CONFIG: Final = "adapter_config"
_MODEL: Final = "adapter_model"
# What a form has around its fields.
_FRAME_BYTES: Final = 64 << 10


@router.post(_PATH)
async def upload(request: Request, context: Context) -> dict[str, Any]:
    """Store an adapter in PEFT's format; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    quota, most = context.adapter_quota(tenant), context.settings.max_adapter_bytes
    await context.adapters.require_room(tenant, quota)
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/"):
        raise WrongContentType("the body must be multipart/form-data")
    body = chunks(request, most + MOST_BYTES + _FRAME_BYTES)
    values = await read_form(kind, body, {_MODEL: most, _CONFIG: MOST_BYTES})
    for name in ("name", _CONFIG, _MODEL):
        if name not in values:
            raise BadRequest(f"the form lacks {name}", param=name)
    name = values["name"].decode("utf-8", "replace")
    stored = await context.adapters.add(tenant, name, values[_CONFIG], values[_MODEL], quota)
    return {"success": True, "adapter": adapter_card(stored)}


@router.get(_PATH)
async def every(request: Request, context: Context) -> dict[str, Any]:
    """Those that the caller uploaded; the deployment's own stand with their models."""
    found = await context.adapters.of(tenant_of(context, request))
    return {"adapters": [adapter_card(one) for one in found]}


@router.delete(_PATH + "/{name}")
async def delete(request: Request, context: Context, name: str) -> dict[str, Any]:
    """Requests that a talker speaks already go on."""
    await context.adapters.delete(tenant_of(context, request), name)
    return {"success": True}


def adapter_card(stored: StoredAdapter) -> dict[str, Any]:
    """An adapter for its owner."""
    return {
        "name": stored.name,
        "digest": stored.digest,
        "rank": stored.rank,
        "bytes": stored.size,
        "created_at": int(stored.created_unix_s),
    }
