"""The description of the HTTP routes says what is there, all of it, and nothing else."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from gateway import errors
from gateway.app import KINDS
from gateway.description import openapi
from gateway.description.openapi import PROTOCOLS
from gateway.protocols import cartesia, deepgram, elevenlabs, openai, playground, realtime

ROUTERS = (playground, openai, realtime, elevenlabs, cartesia, deepgram)
# The page, and other names of lists that are described.
UNDESCRIBED = {
    "/", "/playground/key", "/playground/{name}", "/voices/", "/v1/audio/speech/voices",
}  # fmt: skip


@pytest.fixture(scope="module")
def app() -> FastAPI:
    made = FastAPI()
    for protocol in ROUTERS:
        made.include_router(protocol.router)
    return made


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return openapi(app)


def routes_of(router: Any) -> Iterator[APIRoute]:
    """Its own, and those of routers that it includes."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from routes_of(included)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def media(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every form of every body and answer."""
    for name, operation in operations(document):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for body in bodies:
            for kind, content in body.get("content", {}).items():
                yield f"{name} {kind}", content


def checker(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    whole = {**schema, "components": document["components"]}
    return jsonschema.Draft202012Validator(whole)


def test_every_route_is_described_and_every_description_has_a_route(
    app: FastAPI, document: dict[str, Any]
) -> None:
    routes = list(routes_of(app))
    hidden = {route.path for route in routes if not route.include_in_schema}
    assert hidden == UNDESCRIBED
    served = {
        f"{method} {route.path_format}"
        for route in routes
        if route.include_in_schema
        for method in route.methods or ()
    }
    described = [name for protocol in PROTOCOLS for name in protocol.operations]
    assert sorted(described) == sorted(served)
    assert {name for name, _ in operations(document)} == served


def test_a_route_that_nothing_describes_is_an_error() -> None:
    made = FastAPI()
    made.add_api_route("/v1/new", lambda: None)
    with pytest.raises(LookupError, match="GET /v1/new"):
        openapi(made)


def test_operations_have_one_name_each_and_words(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert all(operation["description"] for _, operation in operations(document))


def test_every_example_is_as_its_schema_says(document: dict[str, Any]) -> None:
    examples = 0
    for name, content in media(document):
        schema = content.get("schema", content.get("x-itemSchema", {}))
        given = [content["example"]] if "example" in content else []
        for one in content.get("examples", {}).values():
            key = one["$ref"].removeprefix("#/components/examples/")
            given.append(document["components"]["examples"][key]["value"])
        for value in given:
            found = list(checker(document, schema).iter_errors(value))
            assert found == [], (name, value)
        examples += len(given)
    assert examples > 400


def test_bodies_and_answers_in_json_have_examples_or_fields(document: dict[str, Any]) -> None:
    for name, content in media(document):
        if "application/json" in name:
            assert content.get("schema") or content.get("x-itemSchema"), name


def test_every_error_of_http_is_told_somewhere(document: dict[str, Any]) -> None:
    told = {key.partition(".")[2] for key in document["components"]["examples"]}
    of_sockets = {
        "binary_message", "wrong_order", "too_many_contexts", "produced_elsewhere",
        "item_create_duplicate_item_id", "item_retrieve_invalid_item_id",
        "conversation_already_has_active_response", "response_cancel_not_active",
        "input_audio_buffer_commit_empty", "session_expired", "input_timeout", "input_too_slow",
        "input_too_fast", "input_lost", "idle_timeout", "client_too_slow",
    }  # fmt: skip
    assert told | of_sockets == set(errors.EDGES)
    assert told & of_sockets == set()


def test_sockets_stand_in_the_other_description(document: dict[str, Any]) -> None:
    both = set(KINDS) & set(document["paths"])
    assert both == {"/v1/speak", "/v2/speak"}
    assert all(set(document["paths"][path]) == {"post"} for path in both)
