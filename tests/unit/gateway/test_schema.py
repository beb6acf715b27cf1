from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidJson
from gateway.schema import InputText, SessionConfig, parse_body, parse_message
from ttscommon.errors import BadRequest


def test_a_minimal_body_gets_the_defaults() -> None:
    body = parse_body(b'{"input": "hi"}')
    assert (body.model, body.voice, body.response_format, body.streamed) == (
        "default", "default", "wav", False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "streamed"),
    [
        ({"response_format": "pcm"}, True),
        ({"response_format": "pcm", "stream": False}, False),
        ({"response_format": "wav", "stream": True}, True),
    ],
)
def test_only_pcm_streams_unasked(body: dict[str, Any], streamed: bool) -> None:
    assert parse_body(json.dumps({"input": "hi", **body}).encode()).streamed is streamed


def test_openai_may_send_whole_numbers_for_speed() -> None:
    parse_body(b'{"input": "hi", "speed": 1}').refuse_unsupported()


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": 3}, "input"),
        ({"input": "hi", "stream": "yes"}, "stream"),
        ({"input": "hi", "seed": -1}, "seed"),
        ({"input": "hi", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_field_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_body(json.dumps(body).encode())
    assert caught.value.param == param


def test_messages_are_told_apart_by_type() -> None:
    assert isinstance(parse_message('{"type": "session.config", "voice": "slt"}'), SessionConfig)
    assert isinstance(parse_message('{"type": "input.text", "text": "x"}'), InputText)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ('{"type": "cancel", "request_id": 3}', "request_id"),
        ('{"type": "session.config", "seed": 1.5}', "seed"),
        ('{"type": "sing"}', "type"),
        ("{}", "type"),
    ],
)
def test_a_wrong_message_names_its_field(message: str, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_message(message)
    assert caught.value.param == param


@pytest.mark.parametrize("message", ["", "{", "[]", "null", "3", '"x"'])
def test_what_is_no_object_is_invalid_json(message: str) -> None:
    with pytest.raises(InvalidJson):
        parse_message(message)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_escapes_as_anything_but_a_bad_request(value: Any) -> None:
    data = json.dumps(value)
    for parse in (lambda: parse_message(data), lambda: parse_body(data.encode())):
        with pytest.raises(BadRequest):
            parse()
