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
from ttscommon.wire.subjects import StageName


class InvalidJson(BadRequest, code="invalid_json"):
    """The message is not a JSON object."""


class BinaryMessage(BadRequest, code="binary_message"):
    """A binary frame where text belongs."""


class MessageTooBig(BadRequest, code="message_too_big"):
    """The message is over the size limit."""


class WrongOrder(BadRequest, code="wrong_order"):
    """A message that makes no sense in the session's present state."""


class Unsupported(BadRequest, code="unsupported"):
    """A known request that this server does not grant."""


class TooManyContexts(BadRequest, code="too_many_contexts"):
    """As many texts as one connection may have are open or wait already."""


class NotFound(BadRequest, code="not_found"):
    """No such path."""


class VoiceExists(BadRequest, code="voice_exists"):
    """The caller has a voice of this name."""


class LexiconExists(BadRequest, code="lexicon_exists"):
    """The caller has a lexicon of this name."""


class AdapterExists(BadRequest, code="adapter_exists"):
    """The caller has an adapter of this name."""


class ItemExists(BadRequest, code="item_create_duplicate_item_id"):
    """The conversation has an item of this id."""


class UnknownItem(BadRequest, code="item_retrieve_invalid_item_id"):
    """The conversation has no item of this id."""


class ResponseActive(BadRequest, code="conversation_already_has_active_response"):
    """The conversation speaks already."""


class NoActiveResponse(BadRequest, code="response_cancel_not_active"):
    """There is nothing to cancel."""


class NothingRecorded(BadRequest, code="input_audio_buffer_commit_empty"):
    """The buffer of what the client's user says is empty."""


class SessionExpired(AntiphonError, code="session_expired"):
    """The session is as old as it may get."""


class UnknownLexicon(BadRequest, code="unknown_lexicon"):
    """The caller has no lexicon of this name."""


class InvalidLexicon(BadRequest, code="invalid_lexicon"):
    """What was sent is no lexicon, or one beyond the limits."""


class QuotaExceeded(BadRequest, code="quota_exceeded"):
    """The caller keeps as much as it may."""


class NotReady(BadRequest, code="not_ready"):
    """The job has no sound yet, or has failed."""


class WrongContentType(BadRequest, code="unsupported_media_type"):
    """A body that does not say it is what the route takes."""


class ForeignOrigin(BadRequest, code="foreign_origin"):
    """A web page that may not call this gateway."""


class ForeignHost(BadRequest, code="foreign_host"):
    """The client believes to talk to another host."""


class TooManyConnections(Overloaded, code="too_many_connections"):
    """The caller's key or address holds as many connections as it may."""


class HeardElsewhere(AntiphonError, code="heard_elsewhere"):
    """The request goes on over another connection."""


class ProducedElsewhere(AntiphonError, code="produced_elsewhere"):
    """The request's rows come over another connection."""


class InputTooFast(AntiphonError, code="input_too_fast"):
    """More rows came than may wait to be stored."""


class Unavailable(AntiphonError, code="unavailable"):
    """No live worker can do this now."""

    retry_after_s: ClassVar[int] = 1


def unserved(model: str, stage: StageName) -> Unavailable:
    """A stage has no live worker of a model."""
    return Unavailable(f"no live {stage} serves '{model}'", param="model")


class ModelLoading(Unavailable):
    """A worker that can do this has started and is loading its weights."""

    retry_after_s = 2


class Draining(AntiphonError, code="draining"):
    """This gateway is shutting down."""


class InvalidApiKey(AntiphonError, code="invalid_api_key"):
    """The caller did not say who it is, or is not known."""


class RateLimited(Overloaded, code="rate_limit_exceeded"):
    """The caller has used up what its key allows."""


class StreamsUsed(RateLimited):
    """The caller's key has as many streams as it may."""


class SynthesisTimeout(AntiphonError, code="timeout"):
    """The stages sent nothing for too long."""


class InputTimeout(AntiphonError, code="input_timeout"):
    """The client never finished a request's text."""


class InputTooSlow(AntiphonError, code="input_too_slow"):
    """A request's text came more slowly than is allowed."""


class IdleTimeout(AntiphonError, code="idle_timeout"):
    """Nothing happened on a session for too long."""


class ClientTooSlow(AntiphonError, code="client_too_slow"):
    """The client does not take what it asked for."""


class Poison(AntiphonError, code="poison"):
    """The request crashed every worker that spoke it."""


class SynthesisFailed(AntiphonError, code="internal"):
    """A stage gave the request up."""


@dataclass(frozen=True)
class Edge:
    """How a code looks from outside; `close` is None where a socket survives it."""

    status: int
    close: int | None = None

    @property
    def type(self) -> str:
        """OpenAI's word for who has to do something about it."""
        if self.status == 429:
            return "rate_limit_error"
        return "invalid_request_error" if self.status < 500 else "server_error"


_INTERNAL: Final = Edge(500)
# Characters of what a client sent that an error repeats.
_SHOWN: Final = 64

# A store does not come back by itself.
_STORE_RETRY_S: Final = 5

_BY_EDGE: Final[Mapping[Edge, tuple[str, ...]]] = {
    Edge(400): (
        *("bad_request", "wrong_order", "unsupported", "nothing_to_say", "text_too_long"),
        *("unknown_voice", "invalid_adapter", "invalid_lexicon", "item_create_duplicate_item_id"),
        *("conversation_already_has_active_response", "response_cancel_not_active"),
        *("input_audio_buffer_commit_empty", "input_timeout", "input_too_slow", "input_lost"),
    ),
    Edge(400, 1008): ("invalid_json", "binary_message", "idle_timeout", "client_too_slow"),
    Edge(400, 1012): ("session_expired",),
    Edge(401, 1008): ("invalid_api_key",),
    Edge(403): ("foreign_origin", "quota_exceeded"),
    Edge(404): (
        *("not_found", "unknown_model", "unknown_adapter", "unknown_lexicon", "log_gone"),
        "item_retrieve_invalid_item_id",
    ),
    Edge(409): (
        *("not_ready", "voice_exists", "adapter_exists", "lexicon_exists"),
        *("heard_elsewhere", "produced_elsewhere"),
    ),
    Edge(413, 1009): ("message_too_big",),
    Edge(415): ("unsupported_media_type",),
    Edge(421): ("foreign_host",),
    Edge(429): ("too_many_contexts", "input_too_fast"),
    Edge(429, 1013): ("too_many_connections", "rate_limit_exceeded", "overloaded"),
    _INTERNAL: ("poison", "runaway", "internal"),
    Edge(503, 1013): (
        *("unavailable", "bus_unavailable", "store_unavailable", "store_lost"),
        "store_full",
    ),
    Edge(503, 1012): ("draining",),
    Edge(504): ("timeout",),
}
EDGES: Final = MappingProxyType({code: at for at, codes in _BY_EDGE.items() for code in codes})

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
    first = error.errors(include_url=False)[0]
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
            told = first["ctx"]
            what = f"unknown message type '{told['tag'][:_SHOWN]}'"
            return BadRequest(f"{what}; it is one of {told['expected_tags']}", param="type")
        case "extra_forbidden":
            return BadRequest(f"unknown field '{param}'", param=param)
    return BadRequest(f"'{param}': {first['msg']}", param=param)
