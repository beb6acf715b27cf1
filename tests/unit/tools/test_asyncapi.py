"""The description of the sockets holds what was recorded of each, and all of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway.app import KINDS
from tools.site.asyncapi import asyncapi
from tools.site.sockets import CHANNELS

RECORDED = Path(__file__).resolve().parents[2] / "pipeline/gateway/recorded"
# Written where a number or an id differs from run to run.
_NUMBER = re.compile(r"(?<=:)<[a-z]+>")
_ID = re.compile(r"<id (\d+)>")
FILES = {
    "native.txt": "Antiphon",
    "native_drained.txt": "Antiphon",
    "native_handed_over.txt": "Antiphon",
    "native_resumed.txt": "Antiphon",
    "cartesia.txt": "Cartesia",
    "deepgram.txt": "Deepgram",
    "stream_input.txt": "ElevenLabsStreamInput",
    "multi_stream_input.txt": "ElevenLabsMultiStreamInput",
}


# Sent in order to be refused.
REFUSED: dict[str, list[dict[str, Any]]] = {
    "native.txt": [{"type": "session.config", "flavour": "mint"}, {"type": "sing"}],
    "deepgram.txt": [{"type": "Sing"}, {"type": "Speak", "text": 5}],
    "stream_input.txt": [{"text": 5}],
    "multi_stream_input.txt": [{"text": "one", "context_id": 5}],
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return asyncapi()


def checker(
    document: dict[str, Any], schemas: list[dict[str, Any]]
) -> jsonschema.Draft202012Validator:
    whole = {"anyOf": schemas, "components": document["components"]}
    return jsonschema.Draft202012Validator(whole)


def payloads(document: dict[str, Any], channel: str, direction: str) -> list[dict[str, Any]]:
    messages = document["channels"][channel]["messages"]
    found = [one["payload"] for name, one in messages.items() if name.startswith(direction)]
    return [one for one in found if one.get("format") != "binary"]


def lines(name: str, mark: str) -> Iterator[Any]:
    """Messages; a handshake that was denied got an error of HTTP."""
    text = _ID.sub(
        r"request-\1", _NUMBER.sub("1", (RECORDED / name).read_text().replace(":<token>", ":null"))
    )
    for line in text.splitlines():
        if line.startswith(f"{mark} {{") and line.endswith("}"):
            message = json.loads(line[2:])
            if not message.keys() & {"detail", "err_code"}:
                yield message


def test_every_socket_is_described() -> None:
    assert set(CHANNELS) == set(KINDS)


@pytest.mark.parametrize("name", FILES)
def test_what_was_received_is_described_field_by_field(document: dict[str, Any], name: str) -> None:
    known = payloads(document, FILES[name], "received")
    check = checker(document, known)
    messages = list(lines(name, "<"))
    assert messages
    assert [one for one in messages if not check.is_valid(one)] == []
    for message in messages:
        fits = [one for one in known if jsonschema.Draft202012Validator(one).is_valid(message)]
        assert any(set(message) <= set(one["properties"]) for one in fits), message


@pytest.mark.parametrize("name", FILES)
def test_what_was_sent_is_described_but_for_what_was_refused(
    document: dict[str, Any], name: str
) -> None:
    check = checker(document, payloads(document, FILES[name], "sent"))
    messages = list(lines(name, ">"))
    assert messages
    assert [one for one in messages if not check.is_valid(one)] == REFUSED.get(name, [])


def test_references_lead_somewhere(document: dict[str, Any]) -> None:
    for operation in document["operations"].values():
        for reference in (operation["channel"], *operation["messages"]):
            found: Any = document
            for part in reference["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            assert found
