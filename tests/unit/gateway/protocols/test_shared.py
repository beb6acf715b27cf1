"""What protocols share: bounded JSON, forms, contexts and responses."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from gateway.errors import MessageTooBig
from gateway.protocols.shared.bounded_json import SMALL_BYTES, BoundedJson, parsed_json
from gateway.protocols.shared.context import key_of, subprotocol_of
from gateway.protocols.shared.forms import read_form
from gateway.protocols.shared.response import Spool, chosen_headers, range_of
from gateway.requests import IncrementalText, SpeechSpec
from gateway.requests.lexicon import ClientLexicon, LexiconEntry
from ttscommon.wire.errors import BadRequest, TextTooLong
from ttscommon.wire.replicas import Model, Voice

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_SAMPLE = "QUJD/w==" * 100_000


def bounded(data: bytes, size: int) -> BoundedJson:
    fed = BoundedJson()
    for start in range(0, len(data), size):
        fed.feed(data[start : start + size])
    fed.finish()
    return fed


@given(ANY_JSON, st.integers(1, 9), st.booleans())
def test_what_is_no_recording_is_left_as_it_came(value: Any, size: int, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert bounded(data, size).small == data


@given(st.binary(max_size=60), st.integers(1, 9))
def test_what_is_no_json_is_left_as_it_came(data: bytes, size: int) -> None:
    assert bounded(data, size).small == data


@pytest.mark.parametrize("escaped", [False, True])
async def test_a_recording_is_laid_aside_and_given_back(escaped: bool) -> None:
    body = json.dumps({"input": 'Say "ref_audio":"', "ref_audio": _SAMPLE, "seed": 3})
    given_ = body.replace("/", "\\/") if escaped else body
    made = await parsed_json(given_.encode())
    assert len(made.data) < 200
    found = json.loads(made.data)
    assert found == {"input": 'Say "ref_audio":"', "ref_audio": found["ref_audio"], "seed": 3}
    assert made.restore(found["ref_audio"]) == _SAMPLE
    assert made.restore("anything else") == "anything else"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"[" * SMALL_BYTES * 2, BadRequest),
        (b'"",' * SMALL_BYTES, BadRequest),
        (b'{"input": "' + b"a" * (1 << 20), TextTooLong),
        (b" " * (1 << 20), MessageTooBig),
        (b'{"ref_audio":"A",' * SMALL_BYTES, BadRequest),
    ],
)
async def test_what_no_request_needs_is_refused_before_it_is_parsed(
    data: bytes, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await parsed_json(data)


TYPE = 'multipart/form-data; boundary="b o"'
FILES = {"sound": 1 << 20}


def part(name: str, value: bytes, more: str = "") -> bytes:
    head = f'--b o\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


async def parts_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
async def test_fields_and_files_come_out_whichever_way_they_are_cut(size: int) -> None:
    sound = b"\r\n--b \x00--b o" * 50
    data = (
        part("name", "Zoë".encode()) + part("sound", sound, '; filename="a.wav"') + b"--b o--\r\n"
    )
    found = await read_form(TYPE, parts_of(data, size), FILES)
    assert found == ({"name": "Zoë"}, {"sound": sound})


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\n" * 5000, BadRequest),
        (b"", BadRequest),
        (part("a", b"cut off"), BadRequest),
        (part("a", b"") * 17 + b"--b o--", BadRequest),
        (b"--b o\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b o--", BadRequest),
        (b"--b o\r\n" + b"a: b\r\n" * 9, BadRequest),
        (b"--b o\r\na: " + b"b" * 5000, BadRequest),
        (part("a", b"", "\r\nContent-Transfer-Encoding: base64") + b"--b o--", BadRequest),
        (part("a", b"x" * (257 << 10)), MessageTooBig),
        (part("sound", b"x" * ((1 << 20) + 1)), MessageTooBig),
    ],
)
async def test_what_is_no_form_or_too_much_is_the_clients_fault(
    data: bytes, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await read_form(TYPE, parts_of(data, 4096), FILES)


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/mixed; boundary=x",
        f"multipart/form-data; boundary={'x' * 999}",
    ],
)
async def test_a_form_has_a_boundary(content_type: str) -> None:
    with pytest.raises(BadRequest):
        await read_form(content_type, parts_of(b"", 1), FILES)


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
    assert key_of(connection({"Authorization": "Basic sesame"})) is None


def test_a_subprotocol_is_chosen_only_where_it_hides_a_key() -> None:
    assert subprotocol_of(connection({"Sec-WebSocket-Protocol": "token, sesame"})) == "token"
    assert subprotocol_of(connection({"Sec-WebSocket-Protocol": "chat"})) is None


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-400", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-400", (0, 100)),
        ("bytes=100-", (100, 100)),
        ("bytes=9-3", None),
        ("bytes=-0", (100, 100)),
        ("bytes=00-007", (0, 8)),
        (" bytes=1-2 ", (1, 3)),
        ("bytes=1 - 2", None),
        ("bytes=--5", None),
        ("bytes=+1-2", None),
        ("bytes=\u0661-", None),
        ("bytes=999999999999999999-", (999_999_999_999_999_999, 100)),
        ("bytes=" + "9" * 5000 + "-", None),
        ("bytes=" + "0-1," * 5000, None),
        ("bytes=-", None),
        ("samples=0-1", None),
    ],
)
def test_a_range_is_what_the_client_lacks(
    header: str | None, wanted: tuple[int, int] | None
) -> None:
    assert range_of(header, 100) == wanted


@pytest.mark.parametrize("sizes", [[], [1], [64, 1], [60, 60, 600_000], [0, 3, 0]])
async def test_what_comes_out_is_what_went_in(sizes: list[int]) -> None:
    data = [os.urandom(size) for size in sizes]
    with Spool(64) as spool:
        for part in data:
            await spool.add(part)
        assert len(spool) == sum(sizes)
        assert spool.on_disk == (sum(sizes) > 64)
        parts = [part async for part in spool.parts()]
    assert b"".join(parts) == b"".join(data)
    assert max(map(len, parts), default=0) <= 1 << 18
