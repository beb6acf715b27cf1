import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from gateway.errors import InvalidJson
from gateway.protocols.native.messages import ClientMessage, InputRows, parse_message, rows_of
from gateway.protocols.shared.bounded_json import Json
from tests.unit.gateway.protocols.test_shared import ANY_JSON
from ttscommon.wire.errors import BadRequest


def parsed(message: str) -> ClientMessage:
    return parse_message(Json(message.encode()))


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


@given(ANY_JSON)
def test_no_json_escapes_as_anything_but_a_bad_request(value: Any) -> None:
    with pytest.raises(BadRequest):
        parsed(json.dumps(value))


def documented() -> dict[str, Any]:
    text = (Path(__file__).parents[4] / "docs/protocol.md").read_text("utf-8")
    (block,) = re.findall(r"```json rows\n(.+?)\n```", text, re.S)
    found: dict[str, Any] = json.loads(block)
    return found


def test_the_rows_in_the_document_are_what_they_say() -> None:
    message = parsed(json.dumps(documented()))
    assert isinstance(message, InputRows)
    assert message.rows is not None
    rows = rows_of(message.rows)
    assert rows.stored.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert (rows.kind, message.start) == ("said", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"crc32": 3},
        {"data": "AACAPw=="},
        {"data": "not base64!"},
        {"shape": [2, 4]},
        {"dtype": "bf16"},
        {"places": [1, 2, 3]},
    ],
    ids=str,
)
def test_rows_that_are_not_what_they_say_are_refused(change: dict[str, Any]) -> None:
    told = documented()
    message = parsed(json.dumps({**told, "rows": {**told["rows"], **change}}))
    assert isinstance(message, InputRows)
    assert message.rows is not None
    with pytest.raises(BadRequest) as caught:
        rows_of(message.rows)
    assert caught.value.param == "rows"
