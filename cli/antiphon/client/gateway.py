"""A gateway as this client knows it: its address, what it serves, requests and answers as types."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlencode, urlsplit, urlunsplit

import httpx


class GatewayError(Exception):
    """The gateway refused, failed or is not there; the text is for a person.

    `code` is the gateway's; empty if it did not answer. `retry_after_s`: when it may succeed; None
    if waiting does not help.
    """

    def __init__(self, message: str, code: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class SpeechOptions:
    """What may be chosen; None leaves it to the server."""

    model: str = "default"
    voice: str | None = None
    seed: int | None = None
    sample_rate: int | None = None
    speed: float | None = None
    instructions: str | None = None
    language: str | None = None
    adapter: str | None = None
    runaway_guard: bool | None = None

    def config(self) -> dict[str, Any]:
        """The `session.config` message."""
        chosen = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "model"}
        set_ = {name: value for name, value in chosen.items() if value is not None}
        return {"type": "session.config", "model": self.model, "resumable": True, **set_}


@dataclass(frozen=True)
class Started:
    """Audio follows: mono s16le at `sample_rate`.

    synthetic: whether the gateway says that it is; generated_by: by whom, if it says.
    """

    request_id: str
    sample_rate: int
    voice: str
    seed: int
    model: str = ""
    synthetic: bool = False
    generated_by: str = ""


@dataclass(frozen=True)
class Audio:
    """Some samples, s16le."""

    pcm: bytes


@dataclass(frozen=True)
class Word:
    """A word and when it is spoken, in seconds from the request's first sample."""

    text: str
    start_s: float
    end_s: float

    def later(self, seconds: float) -> Word:
        """The same word in a stream that something came before."""
        return Word(self.text, self.start_s + seconds, self.end_s + seconds)


@dataclass(frozen=True)
class Words:
    """Words whose times are known now."""

    words: tuple[Word, ...]


@dataclass(frozen=True)
class Finished:
    """The end of the request, with the server's account of it."""

    outcome: str
    totals: dict[str, Any]


Event: TypeAlias = Started | Audio | Words | Finished


_SOCKETS = {"http": "ws", "https": "wss"}
_PAGES = {socket: page for page, socket in _SOCKETS.items()}


@dataclass(frozen=True)
class Address:
    """`url` begins with http:// or https:// and ends without a slash. `key`: the API key."""

    url: str
    key: str | None = None

    @classmethod
    def parse(cls, given: str, key: str | None = None) -> Self:
        """An address as people write it: without a scheme, with `/v1`, or of a socket.

        Raises GatewayError.
        """
        try:
            parts = urlsplit(given.strip() if "://" in given else f"http://{given.strip()}")
            scheme = _PAGES.get(parts.scheme, parts.scheme)
            if scheme not in _SOCKETS or not parts.hostname or parts.port == 0:
                raise ValueError
        except ValueError:
            hint = "give one such as http://127.0.0.1:8000"
            raise GatewayError(f"{given!r} is no address of a gateway; {hint}") from None
        path = parts.path.rstrip("/").removesuffix("/v1")
        return cls(urlunsplit((scheme, parts.netloc, path, "", "")), key)

    @property
    def socket(self) -> str:
        """The WebSocket that speaks."""
        scheme, rest = self.url.split("://", 1)
        return f"{_SOCKETS[scheme]}://{rest}/v1/audio/speech/stream"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    @property
    def silent(self) -> str:
        """What to say when no server answers there."""
        return f"no server answers at {self.url}; `antiphon up` starts one"


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
    except httpx.TimeoutException as error:
        raise GatewayError(f"{address.url} did not answer within {_TIMEOUT_S:g} s") from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        what = path.partition("?")[0].rpartition("/")[2]
        raise GatewayError(f"{address.url} has no list of {what}: {error}") from error
    return rows
