"""The page that streams, plays and shows time to first sound, slack and gaps as they happen."""

from __future__ import annotations

from importlib import resources
from typing import Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

_PAGE: Final = resources.files("gateway").joinpath("static/index.html").read_text("utf-8")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:; connect-src 'self' ws: wss:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

router = APIRouter()


@router.get("/", include_in_schema=False)
async def playground() -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"content-security-policy": _POLICY})
