from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidJson
from gateway.protocols.native.messages import (
    ClientMessage,
    InputText,
    SessionConfig,
    parse_message,
)
from gateway.protocols.shared.sifter import Json
from ttscommon.wire.errors import BadRequest


def parsed(message: str) -> ClientMessage:
    return parse_message(Json(message.encode()))


def test_messages_are_told_apart_by_type() -> None:
    assert isinstance(parsed('{"type": "session.config", "voice": "slt"}'), SessionConfig)
    assert isinstance(parsed('{"type": "input.text", "text": "x"}'), InputText)


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
        parsed(message)
    assert caught.value.param == param


@pytest.mark.parametrize("message", ["", "{", "[]", "null", "3", '"x"'])
def test_what_is_no_object_is_invalid_json(message: str) -> None:
    with pytest.raises(InvalidJson):
        parsed(message)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_escapes_as_anything_but_a_bad_request(value: Any) -> None:
    with pytest.raises(BadRequest):
        parsed(json.dumps(value))
