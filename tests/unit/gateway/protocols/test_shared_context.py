"""Headers that say what became of a client's request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.requests import HTTPConnection

from gateway.protocols.shared.context import chosen_headers, key_of, subprotocol_of
from gateway.requests import IncrementalText, SpeechSpec
from gateway.requests.lexicon import ClientLexicon, LexiconEntry
from ttscommon.wire.replicas import Model, Voice


def _spec(family: str, ignored: tuple[str, ...] = ()) -> SpeechSpec:
    model = Model("default", family, 24_000, 20.0)
    return SpeechSpec(model, Voice("v", "V", "en-US"), 24_000, ignored=ignored)


def _text(text: str) -> IncrementalText:
    return IncrementalText.whole(text, 1000)


def test_a_lexicon_with_phones_is_told_of_where_a_model_knows_none() -> None:
    lexicon = ClientLexicon([LexiconEntry("tide", phones="taɪd")])
    for family, header in (("vesper", None), ("qwen3_tts", "lexicons:phoneme")):
        spec = replace(_spec(family), lexicons=(lexicon,))
        assert chosen_headers(spec, _text("Hello")).get("x-ignored") == header


@pytest.mark.parametrize(
    ("family", "ignored", "text", "header"),
    [
        ("vesper", (), "Hello", None),
        ("vesper", ("instructions",), "Hello", "instructions"),
        ("vesper", ("instructions",), "Hello 你好", "instructions, text:Han"),
        ("qwen3_tts", (), "Hello 你好", None),
        ("vesper", (), "Hello <voice name='x'>you</voice>", "markup:voice"),
        ("qwen3_tts", (), "Hello <phoneme ph='a'>you</phoneme>", "markup:phoneme"),
        ("vesper", (), "Hello <phoneme ph='a'>you</phoneme>", None),
        ("vesper", (), "<emphasis>Hello</emphasis>", "markup:emphasis"),
    ],
)
def test_what_is_left_out_is_named(
    family: str, ignored: tuple[str, ...], text: str, header: str | None
) -> None:
    assert chosen_headers(_spec(family, ignored), _text(text)).get("x-ignored") == header


def connection(headers: dict[str, str], query: str = "") -> HTTPConnection:
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "headers": encoded, "query_string": query.encode()})


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"Authorization": "Bearer sesame"}, ""),
        ({"Authorization": "Token sesame"}, ""),
        ({"xi-api-key": "sesame"}, ""),
        ({"X-API-Key": "sesame"}, ""),
        ({}, "api_key=sesame"),
        ({}, "access_token=sesame"),
        ({"Sec-WebSocket-Protocol": "token, sesame"}, ""),
        ({"Authorization": "Bearer "}, "api_key=sesame"),
    ],
)
def test_a_key_is_found_wherever_a_client_puts_it(headers: dict[str, str], query: str) -> None:
    assert key_of(connection(headers, query)) == "sesame"


def test_no_key_is_none() -> None:
    assert key_of(connection({"Authorization": "Basic sesame"})) is None


def test_a_subprotocol_is_chosen_only_where_it_hides_a_key() -> None:
    assert subprotocol_of(connection({"Sec-WebSocket-Protocol": "token, sesame"})) == "token"
    assert subprotocol_of(connection({"Sec-WebSocket-Protocol": "chat"})) is None
