"""The text that a `response.create` has spoken. Pure.

No language model stands behind the socket: a response speaks what is new as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.protocols.realtime.configuration import Settings, for_response
from gateway.protocols.realtime.items import (
    Conversation,
    ConversationItem,
    new_id,
    newest,
    parsed_item,
)
from ttscommon.wire.errors import BadRequest

# Pipecat puts several messages, or one of an assistant, into one text with JSON in it.
_SAVED: Final = re.compile(r"previously saved conversation[^\[{]*(?=[\[{])")
_JSON: Final = json.JSONDecoder()
_MOST_METADATA: Final = 16
_LONGEST_VALUE: Final = 512
_MOST_INPUT: Final = 256


@dataclass(frozen=True)
class WantedResponse:
    """settings: the session's, with what the client changed for it. metadata: the client's own.
    conversational: it becomes a part of the conversation. source: the item that it speaks, text:
    how it reads.
    """

    settings: Settings
    metadata: dict[str, Any] | None = None
    conversational: bool = True
    source: ConversationItem | None = None
    text: str = ""
    response_id: str = field(default_factory=lambda: new_id("resp"))
    item_id: str = field(default_factory=lambda: new_id("item"))

    @property
    def audible(self) -> bool:
        return "audio" in self.settings["output_modalities"]


def wanted(settings: Settings, asked: Any, conversation: Conversation) -> WantedResponse:
    """What a client wants with `asked`; raises BadRequest."""
    asked = {} if asked is None else asked
    if not isinstance(asked, Mapping):
        raise BadRequest("'response': an object is expected", param="response")
    source = _source(asked.get("input"), conversation)
    return WantedResponse(
        for_response(settings, asked),
        _metadata(asked.get("metadata")),
        asked.get("conversation") != "none",
        source,
        "" if source is None else spoken_text(source.text),
    )


def spoken_text(text: str) -> str:
    """What of an item's text is said: of a conversation that was packed into it, its last words."""
    found = _SAVED.search(text)
    if found is None:
        return text
    try:
        messages, _ = _JSON.raw_decode(text, found.end())
    except (ValueError, RecursionError):
        return text
    last = messages[-1] if isinstance(messages, list) and messages else messages
    return _content(last.get("content")) if isinstance(last, dict) else ""


def _content(content: Any) -> str:
    """Of a message of a language model: a string, or a list of parts."""
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _source(given: Any, conversation: Conversation) -> ConversationItem | None:
    """The newest item with text: of `input` where there is one, else of what was not spoken."""
    if given is None:
        return conversation.newest()
    if not isinstance(given, list) or len(given) > _MOST_INPUT:
        raise BadRequest("'response.input': a list of items is expected", param="response.input")
    return newest([item for one in given if (item := _named(one, conversation)) is not None])


def _named(given: Any, conversation: Conversation) -> ConversationItem | None:
    """An item of `input`, or the one of the conversation that it refers to."""
    if isinstance(given, Mapping) and given.get("type") == "item_reference":
        return conversation.find(given.get("id"))
    return parsed_item(given)


def _metadata(given: Any) -> dict[str, Any] | None:
    """Is told back: clients find their response by it."""
    if given is None:
        return None
    short = isinstance(given, Mapping) and len(given) <= _MOST_METADATA
    if not short or any(len(str(v)) > _LONGEST_VALUE for pair in given.items() for v in pair):
        raise BadRequest(
            f"'metadata': at most {_MOST_METADATA} short strings are expected",
            param="response.metadata",
        )
    return dict(given)
