"""Lexicons over HTTP: kept by the key that made them, and applied to what it has spoken."""

from typing import Any, Final

import pytest

from ttscommon.wire.messages import TextPiece
from ttscommon.wire.pieces import Mark, Phones, Span, Text, unmarked
from ttscommon.wire.subjects import TEXT

PATH = "/v1/audio/lexicons"
BRANDS = {
    "name": "brands",
    "language": "en-US",
    "entries": [
        {"grapheme": "nginx", "alias": "engine x"},
        {"graphemes": ["Siobhan", "Siobhán"], "phoneme": "ʃɪˈvɔːn"},
    ],
}
PLS = b"""<?xml version="1.0"?><lexicon version="1.0" alphabet="x-sampa" xml:lang="en"
 xmlns="http://www.w3.org/2005/01/pronunciation-lexicon"><lexeme><grapheme>tide</grapheme>
<phoneme>taId</phoneme></lexeme></lexicon>"""
XML = {"content-type": "application/pls+xml"}


async def test_a_lexicon_is_made_listed_shown_replaced_and_deleted(stand: Any) -> None:
    made = await stand.http.post(PATH, json=BRANDS)
    assert made.status_code == 200
    assert made.json()["entry_count"] == 3
    assert (await stand.http.post(PATH, json=BRANDS)).json()["error"]["code"] == "lexicon_exists"
    smaller = {**BRANDS, "entries": BRANDS["entries"][:1]}
    assert (await stand.http.post(f"{PATH}?replace=true", json=smaller)).status_code == 200
    listed = (await stand.http.get(PATH)).json()["lexicons"]
    assert [(one["name"], one["entry_count"]) for one in listed] == [("brands", 1)]
    shown = (await stand.http.get(f"{PATH}/brands")).json()
    assert shown["entries"] == [{"grapheme": "nginx", "alias": "engine x"}]
    assert (await stand.http.delete(f"{PATH}/brands")).json() == {"success": True}
    for gone in (stand.http.get(f"{PATH}/brands"), stand.http.delete(f"{PATH}/brands")):
        response = await gone
        assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_lexicon")
    assert (await stand.http.get(PATH)).json() == {"lexicons": []}


async def test_pls_is_taken_by_its_content_type(stand: Any) -> None:
    made = await stand.http.post(f"{PATH}?name=sea", content=PLS, headers=XML)
    assert made.json()["name"] == "sea"
    shown = (await stand.http.get(f"{PATH}/sea")).json()
    assert shown["entries"] == [{"grapheme": "tide", "phoneme": "taɪd", "alphabet": "ipa"}]


REFUSED: Final[tuple[tuple[dict[str, Any], int, str], ...]] = (
    ({"content": b"<!DOCTYPE x><lexicon/>", "headers": XML}, 400, "invalid_lexicon"),
    ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "unsupported_media_type"),
    ({"content": b" " * (300 << 10), "headers": XML}, 413, "message_too_big"),
    ({"json": {**BRANDS, "name": "a b"}}, 400, "bad_request"),
    ({"json": {**BRANDS, "name": ""}}, 400, "bad_request"),
)


async def test_what_is_no_lexicon_is_refused(stand: Any) -> None:
    for options, status, code in REFUSED:
        response = await stand.http.post(PATH, **options)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("settings", [{"max_lexicons": 2}], indirect=True)
async def test_a_key_keeps_only_so_many(stand: Any) -> None:
    for name in ("one", "two"):
        assert (await stand.http.post(PATH, json={**BRANDS, "name": name})).status_code == 200
    refused = await stand.http.post(PATH, json={**BRANDS, "name": "three"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "quota_exceeded")
    assert (
        await stand.http.post(f"{PATH}?replace=true", json={**BRANDS, "name": "two"})
    ).is_success
    assert len((await stand.http.get(PATH)).json()["lexicons"]) == 2


async def test_a_request_that_names_it_is_read_by_it(stand: Any) -> None:
    assert (await stand.http.post(PATH, json=BRANDS)).is_success
    body = {"input": "Ask Siobhan about Nginx.", "response_format": "pcm", "lexicons": ["brands"]}
    response = await stand.http.post("/v1/audio/speech", json=body)
    assert response.status_code == 200
    job = stand.stage.jobs[-1].request
    assert job.text == body["input"]
    assert job.marks == (
        Mark(4, Phones("Siobhan", "ʃɪˈvɔːn", "ipa", optional=True)),
        Mark(18, Phones("Nginx", "", optional=True, alias="engine x")),
    )
    assert job.spans == (Span(0, 0),)
    unknown = await stand.http.post("/v1/audio/speech", json={**body, "lexicons": ["other"]})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (404, "lexicons")


async def test_text_that_comes_piece_by_piece_is_read_by_it(stand: Any, talk: Any) -> None:
    assert (await stand.http.post(PATH, json=BRANDS)).is_success
    pieces: list[Any] = []

    async def listen(performance: Any) -> None:
        request = performance.job.request
        pieces.extend(unmarked(request.text, request.marks, request.spans))
        if not request.text_final:
            async with performance.bus.reader(TEXT, request.request_id) as reader:
                async for record in reader:
                    if isinstance(record, TextPiece):
                        pieces.extend(unmarked(record.text, record.marks, record.spans))
        await performance.say("a")
        await performance.end()

    stand.stage.script = listen
    async with stand.session(lexicons=["brands"]) as socket:
        for part in ("Ask ngi", "nx's ", "<break/> or Siob", "han"):
            await talk.send(socket, "input.text", text=part)
        await talk.send(socket, "input.done")
        done = (await talk.until(socket, "audio.done"))[-1]
    assert done["ignored"] == []
    said = [piece for piece in pieces if isinstance(piece, Phones)]
    assert [(one.text, one.alias, one.phones, one.source) for one in said] == [
        ("nginx's", "engine x's", "", 4),
        ("Siobhan", "", "ʃɪˈvɔːn", 24),
    ]
    assert "".join(piece.text for piece in pieces if isinstance(piece, Text)) == "Ask   or "
