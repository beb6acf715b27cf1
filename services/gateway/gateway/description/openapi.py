"""The OpenAPI description of a gateway's routes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from gateway import errors
from gateway.description import openai, vendors
from gateway.description.answers import OpenAiErrorBody
from gateway.description.operation import JSON, Content, Operation, Schema
from gateway.description.vendor_answers import (
    CartesiaErrorBody,
    DeepgramErrorBody,
    ElevenLabsErrorBody,
)
from gateway.protocols import cartesia, deepgram, elevenlabs
from gateway.protocols.shared.context import ErrorShape, openai_shape
from ttscommon.process.startup import VERSION
from ttscommon.wire.errors import AntiphonError

_BEARER: Final = "bearer"
_REFERENCE: Final = "#/components/schemas/{model}"
_REQUEST_ID: Final = "0gBQmZ4Yx0mYJp0nO5xq1A"
_SUMMARY: Final = (
    "Streaming text-to-speech: OpenAI's speech endpoint and what is around it, and the protocols of"
    " ElevenLabs, Cartesia and Deepgram over the same voices. Sockets are described by AsyncAPI."
)


@dataclass(frozen=True)
class Protocol:
    """Routes of one shape. security: how a key comes."""

    name: str
    about: str
    operations: Mapping[str, Operation]
    error: type
    shape: ErrorShape
    security: str


PROTOCOLS: Final = (
    Protocol("OpenAI", "OpenAI's shape, and Antiphon's own routes in it.", openai.OPERATIONS,
             OpenAiErrorBody, openai_shape, _BEARER),
    Protocol("ElevenLabs", "Voices, speech and dialogues for ElevenLabs' clients.",
             vendors.ELEVENLABS, ElevenLabsErrorBody, elevenlabs.error_shape, "xi-api-key"),
    Protocol("Cartesia", "Voices and speech for Cartesia's clients.", vendors.CARTESIA,
             CartesiaErrorBody, cartesia.error_shape, "x-api-key"),
    Protocol("Deepgram", "Speech for Deepgram's clients.", vendors.DEEPGRAM, DeepgramErrorBody,
             deepgram.error_shape, "token"),
)  # fmt: skip

_SECURITY: Final[Mapping[str, Schema]] = {
    _BEARER: {"type": "http", "scheme": "bearer"},
    "xi-api-key": {"type": "apiKey", "in": "header", "name": "xi-api-key"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "token": {
        "type": "apiKey", "in": "header", "name": "Authorization",
        "description": "`Token` and the key.",
    },
}  # fmt: skip


def openapi(app: FastAPI) -> Schema:
    """The whole document."""
    found = get_openapi(title="Antiphon", version=VERSION, summary=_SUMMARY, routes=app.routes)
    schemas = _Schemas(_contents())
    for method, path, operation in _routes(found["paths"]):
        protocol, known = _described(f"{method.upper()} {path}")
        given = [*operation.get("parameters", ()), *_in_path(path, operation)]
        operation.update(_fields(protocol, known, given, schemas))
    found["tags"] = [{"name": one.name, "description": one.about} for one in PROTOCOLS]
    found["components"] = {
        "schemas": schemas.components,
        "examples": dict(_examples()),
        "securitySchemes": dict(_SECURITY),
    }
    return found


def _routes(paths: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield method, path, operation


def _described(name: str) -> tuple[Protocol, Operation]:
    """Raises LookupError for a route that nothing describes."""
    for protocol in PROTOCOLS:
        if name in protocol.operations:
            return protocol, protocol.operations[name]
    raise LookupError(f"{name} is described nowhere")


class _Schemas:
    """Schemas of models by reference, and the components that they refer to."""

    def __init__(self, contents: Iterable[Content]) -> None:
        adapters = {
            id(one.model): TypeAdapter(one.model)
            for one in contents
            if one.model is not None and not isinstance(one.model, dict)
        }
        self._known, found = TypeAdapter.json_schemas(
            [(key, "validation", adapter) for key, adapter in adapters.items()],
            ref_template=_REFERENCE,
        )
        self.components: Schema = found["$defs"]

    def of(self, model: Any) -> Schema:
        return model if isinstance(model, dict) else dict(self._known[id(model), "validation"])


def _contents() -> Iterator[Content]:
    for protocol in PROTOCOLS:
        yield Content(JSON, protocol.error)
        for operation in protocol.operations.values():
            yield from operation.body
            for answer in operation.answers.values():
                yield from answer


def _fields(
    protocol: Protocol, known: Operation, given: Sequence[Any], schemas: _Schemas
) -> dict[str, Any]:
    """What stands for one operation besides its words."""
    parameters = [*given, *_parameters(known)]
    fields: dict[str, Any] = {
        "operationId": known.id,
        "tags": [protocol.name],
        "responses": _answers(known, schemas) | _failures(protocol, known, schemas),
        "security": [*_keys(protocol), *([] if known.keyed else [{}])],
    }
    if parameters:
        fields["parameters"] = list({(p["in"], p["name"]): p for p in parameters}.values())
    if known.body:
        fields["requestBody"] = {"required": True, "content": _content(known.body, schemas)}
    return fields


def _keys(protocol: Protocol) -> Iterator[Schema]:
    """Its clients' way to send one, and the one that is good everywhere."""
    for scheme in dict.fromkeys((protocol.security, _BEARER)):
        yield {scheme: []}


def _in_path(path: str, operation: Mapping[str, Any]) -> Iterator[Schema]:
    """Parameters that the route's function has no use for."""
    known = {one["name"] for one in operation.get("parameters", ())}
    for name in re.findall(r"{(\w+)}", path):
        if name not in known:
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameters(known: Operation) -> Iterator[dict[str, Any]]:
    for place, named in (("query", known.query), ("header", known.headers)):
        for name, schema in named.items():
            yield {"name": name, "in": place, "required": False, "schema": schema}


def _answers(known: Operation, schemas: _Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, contents in known.answers.items():
        found[str(status)] = {"description": HTTPStatus(status).phrase}
        if contents:
            found[str(status)]["content"] = _content(contents, schemas)
    return found


def _content(contents: Sequence[Content], schemas: _Schemas) -> dict[str, Any]:
    return {one.media_type: _media(one, schemas) for one in contents}


def _media(content: Content, schemas: _Schemas) -> dict[str, Any]:
    if content.model is None:
        return {"schema": {"type": "string", "format": "binary"}}
    schema = schemas.of(content.model)
    # An object a line or an event, which no keyword of this version tells.
    found: dict[str, Any] = {"x-itemSchema" if content.lines else "schema": schema}
    return found if content.example is None else found | {"example": content.example}


def _failures(protocol: Protocol, known: Operation, schemas: _Schemas) -> dict[str, Any]:
    """By status: what the code may be, each with what is sent then."""
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in sorted(known.errors):
        by_status[errors.EDGES[code].status].append(code)
    return {
        str(status): _failure(protocol, status, found, schemas)
        for status, found in sorted(by_status.items())
    }


def _failure(
    protocol: Protocol, status: int, found: Sequence[str], schemas: _Schemas
) -> dict[str, Any]:
    examples = {code: {"$ref": f"#/components/examples/{protocol.name}.{code}"} for code in found}
    media = {"schema": schemas.of(protocol.error), "examples": examples}
    told = f"{HTTPStatus(status).phrase}: {', '.join(found)}"
    return {"description": told, "content": {JSON: media}}


def _examples() -> Iterator[tuple[str, Schema]]:
    """Every error in every shape in which it may be told."""
    kinds = _kinds(AntiphonError)
    for protocol in PROTOCOLS:
        for code in sorted({c for one in protocol.operations.values() for c in one.errors}):
            words = " ".join((kinds[code].__doc__ or "").split())
            told = protocol.shape(kinds[code](words), _REQUEST_ID)
            yield f"{protocol.name}.{code}", {"value": dict(told)}


def _kinds(base: type[AntiphonError]) -> dict[str, type[AntiphonError]]:
    """The class of each code, the first that has it."""
    found = {base.code: base}
    for kind in base.__subclasses__():
        found = _kinds(kind) | found
    return found
