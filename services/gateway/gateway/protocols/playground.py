"""The page that streams, plays and shows time to first sound, slack and gaps as they happen.

It needs nothing from outside the gateway: its style and its modules lie beside it.
"""

from __future__ import annotations

from importlib import resources
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from gateway.errors import NotFound
from gateway.protocols.shared.context import Context, tenant_of

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; "
    "img-src data:; connect-src 'self' ws: wss:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATIC: Final = resources.files("gateway").joinpath("static")
_KINDS: Final = MappingProxyType({".css": "text/css", ".js": "text/javascript"})
_PAGE: Final = _STATIC.joinpath("index.html").read_text("utf-8")
_FILES: Final = MappingProxyType(
    {
        file.name: (kind, file.read_text("utf-8"))
        for file in _STATIC.iterdir()
        for suffix, kind in _KINDS.items()
        if file.name.endswith(suffix)
    }
)

router = APIRouter(include_in_schema=False)


@router.get("/")
async def playground() -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"content-security-policy": _POLICY})


@router.get("/playground/key", status_code=204, response_class=Response)
async def key(request: Request, context: Context) -> None:
    """Whether the caller may speak: the lists need no key, and a socket cannot say why it failed.

    Raises InvalidApiKey.
    """
    tenant_of(context, request)


@router.get("/playground/{name}")
async def part(name: str) -> Response:
    """A stylesheet or a script of the page; raises NotFound."""
    if name not in _FILES:
        raise NotFound(f"the playground has no '{name}'")
    kind, text = _FILES[name]
    # A new gateway's page must not run an old gateway's scripts.
    headers = {"cache-control": "no-cache", "x-content-type-options": "nosniff"}
    return Response(text, media_type=kind, headers=headers)
