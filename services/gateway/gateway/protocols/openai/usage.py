"""`GET /v1/usage`: what the caller's key used, by day and model."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from fastapi import APIRouter, Request

from gateway.protocols.shared.context import Context
from gateway.protocols.shared.credentials import tenant_of
from gateway.requests.usage import UsageSum
from ttscommon.wire.errors import BadRequest

router = APIRouter()

# As long as it is kept.
_MOST_DAYS: Final = 400
_DAYS: Final = 30


@router.get("/v1/usage")
async def usage(request: Request, context: Context) -> dict[str, Any]:
    """From `start_date` to `end_date` (UTC, both included); the last 30 days without."""
    tenant = tenant_of(context, request)
    today = datetime.now(UTC).date()
    last = _day(request, "end_date", today)
    first = _day(request, "start_date", last - timedelta(days=_DAYS - 1))
    if not 0 <= (last - first).days < _MOST_DAYS:
        raise BadRequest(f"ask for 1 to {_MOST_DAYS} days", param="start_date")
    found = await context.services.usage.of(tenant, first, last)
    total = UsageSum()
    for one in found:
        total.add(one.used)
    data = [{"date": o.day.isoformat(), "model": o.model, **_shown(o.used)} for o in found]
    return {
        "object": "list",
        "start_date": first.isoformat(),
        "end_date": last.isoformat(),
        "data": data,
        "total": _shown(total),
    }


def _day(request: Request, name: str, default: date) -> date:
    given = request.query_params.get(name)
    try:
        return default if given is None else date.fromisoformat(given)
    except ValueError:
        raise BadRequest(f"{name} is a day like {default.isoformat()}", param=name) from None


def _shown(used: UsageSum) -> dict[str, Any]:
    return {
        "requests": used.requests,
        "characters": used.characters,
        "audio_seconds": round(used.seconds, 3),
    }
