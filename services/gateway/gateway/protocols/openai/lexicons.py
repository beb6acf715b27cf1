"""Lexicons: how a client wants words to be read, made and deleted by the key that owns them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from gateway.errors import WrongContentType
from gateway.protocols.shared.context import Context, chunks
from gateway.protocols.shared.credentials import tenant_of
from gateway.requests.lexicon import LexiconEntry
from gateway.requests.lexicons import StoredLexicon
from gateway.requests.pls import MOST_BYTES, Parsed, parse_json, parse_pls

router = APIRouter()

_XML: Final = ("application/pls+xml", "application/xml", "text/xml")
_PATH: Final = "/v1/audio/lexicons"


@router.post(_PATH)
async def make(
    request: Request,
    context: Context,
    name: Annotated[str, Query(max_length=64)] = "",
    replace: bool = False,
) -> dict[str, Any]:
    """Store a lexicon in PLS or JSON; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    parsed = await _parsed(request, any_content_type=context.settings.any_content_type)
    stored = await context.lexicons.add(tenant, name or parsed.name, parsed, replace=replace)
    return lexicon_card(stored)


@router.get(_PATH)
async def every(request: Request, context: Context) -> dict[str, Any]:
    """The caller's lexicons, without their entries."""
    found = await context.lexicons.of(tenant_of(context, request))
    return {"lexicons": [lexicon_card(one) for one in found]}


@router.get(_PATH + "/{name}")
async def one(request: Request, context: Context, name: str) -> dict[str, Any]:
    """A lexicon with its entries."""
    stored, entries = await context.lexicons.whole(tenant_of(context, request), name)
    return {**lexicon_card(stored), "entries": [_entry(entry) for entry in entries]}


@router.delete(_PATH + "/{name}")
async def delete(request: Request, context: Context, name: str) -> dict[str, Any]:
    """Requests that have begun keep it."""
    await context.lexicons.delete(tenant_of(context, request), name)
    return {"success": True}


def lexicon_card(stored: StoredLexicon) -> dict[str, Any]:
    """A lexicon for its owner."""
    return {
        "name": stored.name,
        "language": stored.language,
        "entry_count": stored.entries,
        "created_at": int(stored.created_unix_s),
    }


def _entry(entry: LexiconEntry) -> dict[str, Any]:
    if entry.alias:
        return {"grapheme": entry.grapheme, "alias": entry.alias}
    alphabet = "ipa" if entry.alphabet == "ipa" else "cmu-arpabet"
    return {"grapheme": entry.grapheme, "phoneme": entry.phones, "alphabet": alphabet}


async def _parsed(request: Request, *, any_content_type: bool) -> Parsed:
    """Raises InvalidLexicon, MessageTooBig, WrongContentType."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json"
    if not (is_json or kind in _XML or any_content_type):
        raise WrongContentType(f"the body must be application/json or one of {', '.join(_XML)}")
    data = b"".join([part async for part in chunks(request, MOST_BYTES)])
    is_json = is_json or (kind not in _XML and data.lstrip()[:1] == b"{")
    # Thousands of entries take milliseconds.
    return await asyncio.to_thread(parse_json if is_json else parse_pls, data)
