"""The lists that menus are made of."""

import json
from typing import Any

import pytest
from hypothesis import given

from gateway.protocols.openai.lists import default_first
from gateway.protocols.openai.speech import SpeechBody
from gateway.protocols.shared.bounded_json import Json
from tests.unit.gateway.protocols.test_shared import ANY_JSON
from ttscommon.wire.errors import BadRequest


def test_a_minimal_body_gets_openais_defaults_and_a_voice_may_be_an_object() -> None:
    assert SpeechBody.parsed(Json(b'{"input": "hi", "voice": {"id": "slt"}}')).voice == "slt"
    assert SpeechBody.parsed(Json(b'{"inputs": "hi"}')).input == "hi"  # Hugging Face's
    body = SpeechBody.parsed(Json(b'{"input": "hi"}'))
    assert (body.model, body.voice, body.response_format, body.sample_rate, body.stream) == (
        "default", "default", "mp3", 24_000, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "extra",
    [
        {"instructions": "whisper", "user": "u", "non_streaming_mode": True, "lang_code": "a"},
        {"stream": None, "voice": None, "speed": None, "stream_format": None, "seed": None},
        {"speed": 1, "sample_rate": 24_000.0, "voice": {"id": "slt"}},
        {"return_download_link": False, "normalization_options": {}, "volume_multiplier": 1.0},
        {"language": "English", "stream": False, "stream_format": "audio", "task_type": None},
    ],
)
def test_what_other_servers_clients_send_is_taken(extra: dict[str, Any]) -> None:
    SpeechBody.parsed(Json(json.dumps({"input": "hi", **extra}).encode()))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": 3}, "input"),
        ({"input": "hi", "stream": "perhaps"}, "stream"),
        ({"input": "hi", "seed": -1}, "seed"),
        ({"input": "hi", "speed": 9}, "speed"),
        ({"input": "hi", "speed": float("nan")}, "speed"),
        ({"input": "hi", "stream_format": "rss"}, "stream_format"),
        ({"input": "hi", "voice": {"name": "x"}}, "voice"),
    ],
)
def test_a_wrong_field_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        SpeechBody.parsed(Json(json.dumps(body).encode()))
    assert caught.value.param == param


@given(ANY_JSON)
def test_no_json_escapes_as_anything_but_a_bad_request(value: Any) -> None:
    with pytest.raises(BadRequest):
        SpeechBody.parsed(Json(json.dumps(value).encode()))


def test_the_default_model_leads_the_list() -> None:
    assert default_first(["joe", "vesper", "amber"], "vesper") == ["vesper", "amber", "joe"]
    assert default_first(["joe", "amber"], "vesper") == ["amber", "joe"]
