"""Lists of what a gateway serves now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

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
    languages: tuple[str, ...] = ()
    gender: str | None = None


@dataclass(frozen=True)
class ServedModel:
    """A model as the gateway lists it."""

    id: str
    family: str
    sample_rate: int
    accepts: tuple[str, ...]


async def voices(
    url: str,
    key: str | None = None,
    *,
    language: str = "",
    gender: str = "",
    model: str = "default",
) -> list[Voice]:
    """A model's voices, of one language and gender if named; raises GatewayError."""
    query = urlencode({"model": model, "language": language, "gender": gender})
    rows = await _listed(Address.parse(url, key), f"/v1/audio/voices?{query}", "voices")
    return [_voice(row) for row in rows]


def _voice(row: dict[str, Any]) -> Voice:
    """Gateways before 0.3 tell neither all languages nor a gender."""
    language = row["language"]
    return Voice(
        row["id"],
        row["name"],
        language,
        tuple(row.get("languages", (language,))),
        row.get("gender"),
    )


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
        what = path.partition("?")[0].rpartition("/")[2]
        raise GatewayError(f"{address.url} has no list of {what}: {error}") from error
    return rows
