"""Voices as the protocols of other services list, find, make and delete them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from starlette.requests import HTTPConnection, Request

from gateway.errors import InvalidApiKey, ModelLoading, NotFound, Unsupported, VoiceExists
from gateway.protocols.shared.context import chunks, tenant_of
from gateway.protocols.shared.forms import read_form
from gateway.requests import DEFAULT, GatewayContext, NewVoice, StoredVoice
from ttscommon.sound.recordings import MOST_BYTES
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.replicas import MANY, Gender

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """more: whether there are items beyond it."""

    items: Sequence[T]
    more: bool


def limit_of(query: Mapping[str, str], name: str, default: int, most: int = 100) -> int:
    """How many items a query wants; raises BadRequest."""
    given = query.get(name) or str(default)
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise BadRequest(f"'{name}' is a number from 1 to {most}", param=name)
    return int(given)


def page(
    items: Sequence[T],
    name: Callable[[T], str],
    limit: int,
    *,
    after: tuple[str, str | None] = ("after", None),
    before: tuple[str, str | None] = ("before", None),
) -> Page[T]:
    """At most `limit` items behind one, or in front of another; both are (parameter, its value).

    Raises BadRequest for an item that there is not.
    """
    if before[1]:
        end = _place(items, name, *before)
        start = max(0, end - limit)
        return Page(items[start:end], start > 0)
    start = _place(items, name, *after) + 1 if after[1] else 0
    return Page(items[start : start + limit], start + limit < len(items))


def _place(items: Sequence[T], name: Callable[[T], str], param: str, wanted: str | None) -> int:
    for place, item in enumerate(items):
        if name(item) == wanted:
            return place
    raise BadRequest(f"'{param}': there is no '{wanted}' in the list", param=param)


CONSENT: Final = "x-consent"
"""The header for the statement that the makers of these clients have no field for."""
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_FORM: Final = MOST_BYTES + (64 << 10)


@dataclass(frozen=True)
class Listed:
    """A voice in a list. own: its caller made it, of a recording."""

    id: str
    name: str
    languages: tuple[str, ...]
    gender: Gender | None = None
    own: bool = False
    created_unix_s: int = 0

    @property
    def language(self) -> str:
        """The native one: "en" of "en-US"."""
        return self.languages[0].partition("-")[0]


async def listed(context: GatewayContext, connection: HTTPConnection) -> list[Listed]:
    """The default model's voices, and those that the caller made; lists need no key."""
    model = await context.catalogue.model(DEFAULT)
    found = [Listed(voice.id, voice.name, voice.spoken, voice.gender) for voice in model.voices]
    return [*found, *map(_made, await own(context, connection))]


async def own(context: GatewayContext, connection: HTTPConnection) -> Sequence[StoredVoice]:
    """Those that the caller made; none without a key."""
    try:
        tenant = tenant_of(context, connection)
    except InvalidApiKey:
        return ()
    return await context.voices.of(tenant)


async def find(context: GatewayContext, connection: HTTPConnection, voice_id: str) -> Listed:
    """Raises NotFound."""
    for voice in await listed(context, connection):
        if voice.id == voice_id:
            return voice
    raise NotFound(f"there is no voice '{voice_id}'", param="voice_id")


def chosen(voices: Sequence[Listed], query: Mapping[str, str]) -> list[Listed]:
    """Those that a query asks for, by language, gender, and words in their names."""
    language, gender = query.get("language"), query.get("gender")
    words = (query.get("search") or query.get("q") or "").casefold()
    return [
        voice
        for voice in voices
        if (not language or any(_primary(language) == _primary(tag) for tag in voice.languages))
        and (not gender or voice.gender == gender)
        and words in f"{voice.id} {voice.name}".casefold()
    ]


async def make(context: GatewayContext, request: Request, file: str) -> StoredVoice:
    """A voice of the recording that a form brings in its field `file`.

    Raises what `require_cloning` and VoiceStore.add raise.
    """
    tenant = tenant_of(context, request)
    await require_cloning(context, file)
    kind = request.headers.get("content-type", "")
    texts, files = await read_form(kind, chunks(request, _MOST_FORM), {file: MOST_BYTES})
    new = _new(texts, files.get(file), file, request.headers.get(CONSENT, ""))
    try:
        return await context.voices.add(tenant, new)
    except VoiceExists:
        again = f"{new.name[:55]}-{secrets.token_hex(4)}"
        return await context.voices.add(tenant, NewVoice(again, new.data, new.consent, new.text))


async def require_cloning(context: GatewayContext, file: str) -> None:
    """Raises Unsupported where no model speaks with voices made of recordings, Unavailable while
    that is not known. `file`: the field with the recording.
    """
    models = (await context.catalogue.models()).values()
    if any("ref_audio" in model.accepts for model in models):
        return
    await context.catalogue.model(DEFAULT)  # raises where no talker runs
    if loading := context.catalogue.snapshot.loading("talker"):
        raise ModelLoading(f"a talker is loading '{min(loading)}': try again in a moment")
    raise Unsupported("no model here speaks with voices made of recordings", param=file)


def _new(texts: Mapping[str, str], data: bytes | None, file: str, consent: str) -> NewVoice:
    name = _OTHERS.sub("-", texts.get("name", "")).strip("-")[:64]
    if not name:
        raise BadRequest("'name': a name with letters or digits is needed", param="name")
    if data is None:
        raise BadRequest(f"'{file}': a recording is needed", param=file)
    stated = texts.get("consent", consent)
    if not stated.strip():
        raise BadRequest(
            "a voice needs the statement of consent of the speaker in it: send it as the field"
            f" 'consent' or the header {CONSENT}",
            param="consent",
        )
    return NewVoice(name, data, stated, texts.get("ref_text", ""))


def _made(voice: StoredVoice) -> Listed:
    return Listed(
        voice.name, voice.name, (MANY,), own=True, created_unix_s=int(voice.created_unix_s)
    )


def _primary(tag: str) -> str:
    return tag.partition("-")[0].casefold()
