"""One route, as its code does not say by itself: bodies, answers and errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"

Schema: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Content:
    """One form of a body. model: a type, or a schema; None for bytes. lines: many of it."""

    media_type: str
    model: Any = None
    example: Any = None
    lines: bool = False


@dataclass(frozen=True)
class Operation:
    """answers: by status. query: schemas by name, of what the route reads by itself."""

    id: str
    answers: Mapping[int, Sequence[Content]]
    errors: frozenset[str]
    body: Sequence[Content] = ()
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    keyed: bool = True


def json(model: Any, example: Any = None) -> Content:
    """An object."""
    return Content(JSON, model, example)


def codes(*groups: Iterable[str]) -> frozenset[str]:
    """Errors of several causes."""
    return frozenset(code for group in groups for code in group)


# Any route, for any caller.
ANY: Final = ("bad_request", "foreign_host", "too_many_connections", "internal")
KEYED: Final = (*ANY, "invalid_api_key")
STORED: Final = ("bus_unavailable", "store_unavailable")
LISTED: Final = ("unavailable",)
CHANGED: Final = (*KEYED, *STORED, "foreign_origin")
SENT: Final = ("message_too_big", "unsupported_media_type")
SENT_JSON: Final = (*SENT, "invalid_json")
SPOKEN: Final = (
    *("nothing_to_say", "text_too_long", "unsupported"),
    *("unknown_voice", "unknown_model", "unknown_adapter", "unknown_lexicon"),
    *("rate_limit_exceeded", "overloaded", "unavailable", "draining", "timeout"),
    *("bus_unavailable", "store_unavailable", "store_full", "store_lost"),
    *("poison", "runaway", "heard_elsewhere"),
)

TEXT: Final[Schema] = {"type": "string"}
DAY: Final[Schema] = {"type": "string", "format": "date"}
SWITCH: Final[Schema] = {"type": "boolean"}
WAIT_S: Final[Schema] = {
    "type": "number", "minimum": 0, "maximum": 600,
    "description": "How many seconds the request would wait for room.",
}  # fmt: skip


def count(most: int, default: int) -> Schema:
    """The length of a page."""
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}


def choice(*values: str) -> Schema:
    """One of these; any other chooses nothing."""
    return {"type": "string", "examples": list(values)}


def form(properties: Mapping[str, Schema], *required: str) -> Content:
    """Fields and files."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return Content(FORM, schema)


EVENTS: Final = Content(
    "text/event-stream",
    {"type": "object", "properties": {"event": TEXT, "data": TEXT}, "required": ["data"]},
    lines=True,
)
FILE: Final[Schema] = {"type": "string", "format": "binary"}


def sound(*media_types: str) -> tuple[Content, ...]:
    """Audio, in each of these."""
    return tuple(Content(kind) for kind in media_types)
