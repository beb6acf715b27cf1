"""Lists of what a gateway serves now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import httpx

from antiphon.client.address import Address
from antiphon.client.terms import GatewayError

_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class Voice:
    """A voice that can be spoken with now."""

    id: str
    name: str
    language: str


@dataclass(frozen=True)
class ServedModel:
    """A model as the gateway lists it."""

    id: str
    family: str
    sample_rate: int
    accepts: tuple[str, ...]


async def voices(url: str, key: str | None = None) -> list[Voice]:
    """The voices of every live model; raises GatewayError."""
    rows = await _listed(Address.parse(url, key), "/v1/audio/voices", "voices")
    return [Voice(row["id"], row["name"], row["language"]) for row in rows]


async def models(url: str, key: str | None = None) -> list[ServedModel]:
    """Every live model; raises GatewayError."""
    rows = await _listed(Address.parse(url, key), "/v1/models", "data")
    return [
        ServedModel(row["id"], row["family"], row["sample_rate"], tuple(row["accepts"]))
        for row in rows
    ]


async def _listed(address: Address, path: str, name: str) -> list[dict[str, Any]]:
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, headers=address.headers) as client:
            response = await client.get(address.url + path)
            response.raise_for_status()
            rows: list[dict[str, Any]] = response.json()[name]
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise GatewayError(address.silent) from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        what = path.rpartition("/")[2]
        raise GatewayError(f"{address.url} has no list of {what}: {error}") from error
    return rows
