from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.openai.body import parse_body
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


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_escapes_as_anything_but_a_bad_request(value: Any) -> None:
    with pytest.raises(BadRequest):
        parse_body(json.dumps(value).encode())
