"""Recordings in clients' messages are put back wherever they stand, whatever else stands there."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.protocols.realtime.uploads import restored
from gateway.protocols.shared.bounded_json import Json


class Laid:
    """A message whose recordings were left out."""

    def restore(self, name: str) -> str:
        return f"the sound of {name}"


def put_back(message: dict[str, Any]) -> dict[str, Any]:
    return restored(message, cast("Json", Laid()))


def test_recordings_of_a_message_its_item_and_its_response_are_put_back() -> None:
    def item() -> dict[str, Any]:
        return {"content": [{"type": "input_audio", "audio": "a"}]}

    found = put_back({"audio": "b", "item": item(), "response": {"input": [item()]}})
    assert found["audio"] == "the sound of b"
    assert found["item"]["content"][0]["audio"] == "the sound of a"
    assert found["response"]["input"][0]["content"][0]["audio"] == "the sound of a"


@pytest.mark.parametrize("wrong", [5, "x", None, [5], {"content": 5}, {"content": [5, None]}])
def test_what_is_no_item_is_left_for_the_parser_to_refuse(wrong: object) -> None:
    message = {"item": wrong, "response": {"input": [wrong]}}
    assert put_back(message) == {"item": wrong, "response": {"input": [wrong]}}
    assert put_back({"item": {}, "response": wrong}) == {"item": {}, "response": wrong}
