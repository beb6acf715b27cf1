"""The one edge where typed failures become what a client sees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic import ValidationError

from ttscommon.wire.errors import (
    AntiphonError,
    BadRequest,
    BusUnavailable,
    InputLost,
    InvalidAdapter,
    LogGone,
    NothingToSay,
    Overloaded,
    Runaway,
    StoreFull,
    StoreLost,
    StoreUnavailable,
    TextTooLong,
    UnknownAdapter,
    UnknownModel,
    UnknownVoice,
)
from ttscommon.wire.messages import End


class InvalidJson(BadRequest):
    """The message is not a JSON object."""

    code = "invalid_json"


class BinaryMessage(BadRequest):
    """A binary frame where text belongs."""

    code = "binary_message"


class MessageTooBig(BadRequest):
    """The message is over the size limit."""

    code = "message_too_big"


class WrongOrder(BadRequest):
    """A message that makes no sense in the session's present state."""

    code = "wrong_order"


class Unsupported(BadRequest):
    """A known request that this server does not grant."""

    code = "unsupported"


class TooManyContexts(BadRequest):
    """As many texts as one connection may have are open or wait already."""

    code = "too_many_contexts"


class NotFound(BadRequest):
    """No such path."""

    code = "not_found"


class VoiceExists(BadRequest):
    """The caller has a voice of this name."""

    code = "voice_exists"


class LexiconExists(BadRequest):
    """The caller has a lexicon of this name."""

    code = "lexicon_exists"


class AdapterExists(BadRequest):
    """The caller has an adapter of this name."""

    code = "adapter_exists"


class ItemExists(BadRequest):
    """The conversation has an item of this id."""

    code = "item_create_duplicate_item_id"


class UnknownItem(BadRequest):
    """The conversation has no item of this id."""

    code = "item_retrieve_invalid_item_id"


class ResponseActive(BadRequest):
    """The conversation speaks already."""

    code = "conversation_already_has_active_response"


class NoActiveResponse(BadRequest):
    """There is nothing to cancel."""

    code = "response_cancel_not_active"


class NothingRecorded(BadRequest):
    """The buffer of what the client's user says is empty."""

    code = "input_audio_buffer_commit_empty"


class SessionExpired(AntiphonError):
    """The session is as old as it may get."""

    code = "session_expired"


class UnknownLexicon(BadRequest):
    """The caller has no lexicon of this name."""

    code = "unknown_lexicon"


class InvalidLexicon(BadRequest):
    """What was sent is no lexicon, or one beyond the limits."""

    code = "invalid_lexicon"


class QuotaExceeded(BadRequest):
    """The caller keeps as much as it may."""

    code = "quota_exceeded"


class NotReady(BadRequest):
    """The job has no sound yet, or has failed."""

    code = "not_ready"


class WrongContentType(BadRequest):
    """A body that does not say it is what the route takes."""

    code = "unsupported_media_type"


class ForeignOrigin(BadRequest):
    """A web page that may not call this gateway."""

    code = "foreign_origin"


class ForeignHost(BadRequest):
    """The client believes to talk to another host."""

    code = "foreign_host"


class TooManyConnections(Overloaded):
    """The caller's key or address holds as many connections as it may."""

    code = "too_many_connections"


class HeardElsewhere(AntiphonError):
    """The request goes on over another connection."""

    code = "heard_elsewhere"


class ProducedElsewhere(AntiphonError):
    """The request's rows come over another connection."""

    code = "produced_elsewhere"


class InputTooFast(AntiphonError):
    """More rows came than may wait to be stored."""

    code = "input_too_fast"


class Unavailable(AntiphonError):
    """No live worker can do this now."""

    code = "unavailable"
    retry_after_s: ClassVar[int] = 1


class ModelLoading(Unavailable):
    """A worker that can do this has started and is loading its weights."""

    retry_after_s = 2


class Draining(AntiphonError):
    """This gateway is shutting down."""

    code = "draining"


class InvalidApiKey(AntiphonError):
    """The caller did not say who it is, or is not known."""

    code = "invalid_api_key"


class RateLimited(Overloaded):
    """The caller has used up what its key allows."""

    code = "rate_limit_exceeded"


class StreamsUsed(RateLimited):
    """The caller's key has as many streams as it may."""


class SynthesisTimeout(AntiphonError):
    """The stages sent nothing for too long."""

    code = "timeout"


class InputTimeout(AntiphonError):
    """The client never finished a request's text."""

    code = "input_timeout"


class InputTooSlow(AntiphonError):
    """A request's text came more slowly than is allowed."""

    code = "input_too_slow"


class IdleTimeout(AntiphonError):
    """Nothing happened on a session for too long."""

    code = "idle_timeout"


class ClientTooSlow(AntiphonError):
    """The client does not take what it asked for."""

    code = "client_too_slow"


class Poison(AntiphonError):
    """The request crashed every worker that spoke it."""

    code = "poison"


class SynthesisFailed(AntiphonError):
    """A stage gave the request up."""

    code = "internal"


@dataclass(frozen=True)
class Edge:
    """How a code looks from outside; `close` is None where a socket survives it."""

    status: int
    type: str
    close: int | None = None


_INVALID: Final = "invalid_request_error"
_SERVER: Final = "server_error"
_INTERNAL: Final = Edge(500, _SERVER)

# A store does not come back by itself.
_STORE_RETRY_S: Final = 5

EDGES: Final[Mapping[str, Edge]] = MappingProxyType(
    {
        "bad_request": Edge(400, _INVALID),
        "invalid_json": Edge(400, _INVALID, 1008),
        "binary_message": Edge(400, _INVALID, 1008),
        "message_too_big": Edge(413, _INVALID, 1009),
        "wrong_order": Edge(400, _INVALID),
        "unsupported": Edge(400, _INVALID),
        "too_many_contexts": Edge(429, "rate_limit_error"),
        "not_found": Edge(404, _INVALID),
        "not_ready": Edge(409, _INVALID),
        "unsupported_media_type": Edge(415, _INVALID),
        "foreign_origin": Edge(403, _INVALID),
        "foreign_host": Edge(421, _INVALID),
        "too_many_connections": Edge(429, "rate_limit_error", 1013),
        "heard_elsewhere": Edge(409, _INVALID),
        "produced_elsewhere": Edge(409, _INVALID),
        "nothing_to_say": Edge(400, _INVALID),
        "text_too_long": Edge(400, _INVALID),
        "unknown_voice": Edge(400, _INVALID),
        "voice_exists": Edge(409, _INVALID),
        "unknown_adapter": Edge(404, _INVALID),
        "invalid_adapter": Edge(400, _INVALID),
        "adapter_exists": Edge(409, _INVALID),
        "lexicon_exists": Edge(409, _INVALID),
        "unknown_lexicon": Edge(404, _INVALID),
        "invalid_lexicon": Edge(400, _INVALID),
        "quota_exceeded": Edge(403, _INVALID),
        "item_create_duplicate_item_id": Edge(400, _INVALID),
        "item_retrieve_invalid_item_id": Edge(404, _INVALID),
        "conversation_already_has_active_response": Edge(400, _INVALID),
        "response_cancel_not_active": Edge(400, _INVALID),
        "input_audio_buffer_commit_empty": Edge(400, _INVALID),
        "session_expired": Edge(400, _INVALID, 1012),
        "unknown_model": Edge(404, _INVALID),
        "invalid_api_key": Edge(401, _INVALID, 1008),
        "rate_limit_exceeded": Edge(429, "rate_limit_error", 1013),
        "overloaded": Edge(429, "rate_limit_error", 1013),
        "unavailable": Edge(503, _SERVER, 1013),
        "bus_unavailable": Edge(503, _SERVER, 1013),
        "store_unavailable": Edge(503, _SERVER, 1013),
        "store_lost": Edge(503, _SERVER, 1013),
        "store_full": Edge(503, _SERVER, 1013),
        "draining": Edge(503, _SERVER, 1012),
        "timeout": Edge(504, _SERVER),
        "input_timeout": Edge(400, _INVALID),
        "input_too_slow": Edge(400, _INVALID),
        "input_too_fast": Edge(429, "rate_limit_error"),
        "input_lost": Edge(400, _INVALID),
        "idle_timeout": Edge(400, _INVALID, 1008),
        "client_too_slow": Edge(400, _INVALID, 1008),
        "log_gone": Edge(404, _INVALID),
        "poison": _INTERNAL,
        "runaway": _INTERNAL,
        "internal": _INTERNAL,
    }
)

_REPORTED_BY_STAGES: Final[Mapping[str, type[AntiphonError]]] = MappingProxyType(
    {
        kind.code: kind
        for kind in (
            BadRequest, NothingToSay, UnknownVoice, UnknownModel, TextTooLong, BusUnavailable,
            UnknownAdapter, InvalidAdapter, Unavailable, SynthesisTimeout, LogGone, Poison,
            StoreFull, StoreLost, Runaway, InputLost, Unsupported,
        )
    }
)  # fmt: skip


def edge(error: AntiphonError) -> Edge:
    """How `error` looks from outside; an unplanned code is a fault of ours."""
    return EDGES.get(error.code, _INTERNAL)


def body(error: AntiphonError) -> dict[str, Any]:
    """OpenAI's error object."""
    known = error.code in EDGES
    return {
        "message": error.message if known else "internal error",
        "type": edge(error).type,
        "param": error.param,
        "code": error.code if known else "internal",
    }


def retry_after_s(error: AntiphonError) -> int | None:
    """Whole seconds after which the same may succeed; None if waiting does not help."""
    if isinstance(error, Overloaded):
        return max(1, math.ceil(error.retry_after_s))
    if isinstance(error, StoreUnavailable):
        return _STORE_RETRY_S
    if isinstance(error, Unavailable):
        return error.retry_after_s
    return 1 if edge(error).status == 503 else None


def headers(error: AntiphonError) -> dict[str, str]:
    """What an HTTP response to `error` carries besides its body."""
    if isinstance(error, InvalidApiKey):
        return {"www-authenticate": "Bearer"}
    wait_s = retry_after_s(error)
    return {} if wait_s is None else {"retry-after": str(wait_s)}


def from_end(end: End) -> AntiphonError:
    """The failure a stage reported in a request's End."""
    return from_stage(end.code, end.message, end.param)


def from_stage(code: str, message: str, param: str | None = None) -> AntiphonError:
    """The failure that a stage named by its code."""
    if code == Overloaded.code:
        return Overloaded(message or "there is no room now")
    kind = _REPORTED_BY_STAGES.get(code, SynthesisFailed)
    return kind(message or "synthesis failed", param=param)


def from_validation(error: ValidationError, *, tagged: bool = False) -> BadRequest:
    """The first thing pydantic found wrong, in OpenAI's terms.

    `tagged`: it was a tagged union, which puts the tag in front of the field's own name.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    path = first["loc"][1:] if tagged else first["loc"]
    param = ".".join(map(str, path)) or None
    match first["type"]:
        case "json_invalid":
            return InvalidJson("the body is not valid JSON")
        case "model_type" | "model_attributes_type" | "dict_type":
            return InvalidJson("a JSON object is expected")
        case "missing" | "union_tag_not_found":
            param = param or "type"
            return BadRequest(f"'{param}' is required", param=param)
        case "union_tag_invalid":
            return BadRequest("unknown message type", param="type")
        case "extra_forbidden":
            return BadRequest(f"unknown field '{param}'", param=param)
    return BadRequest(f"'{param}': {first['msg']}", param=param)
