from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection

from gateway.protocols.shared.credentials import key_of, subprotocol_of


def connection(headers: dict[str, str], query: str = "") -> HTTPConnection:
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "headers": encoded, "query_string": query.encode()})


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"Authorization": "Bearer sesame"}, ""),
        ({"Authorization": "Token sesame"}, ""),
        ({"xi-api-key": "sesame"}, ""),
        ({"X-API-Key": "sesame"}, ""),
        ({}, "api_key=sesame"),
        ({}, "access_token=sesame"),
        ({"Sec-WebSocket-Protocol": "token, sesame"}, ""),
        ({"Authorization": "Bearer "}, "api_key=sesame"),
    ],
)
def test_a_key_is_found_wherever_a_client_puts_it(headers: dict[str, str], query: str) -> None:
    assert key_of(connection(headers, query)) == "sesame"


def test_no_key_is_none() -> None:
    assert key_of(connection({"Authorization": "Basic sesame"})) is None


def test_a_subprotocol_is_chosen_only_where_it_hides_a_key() -> None:
    assert subprotocol_of(connection({"Sec-WebSocket-Protocol": "token, sesame"})) == "token"
    assert subprotocol_of(connection({"Sec-WebSocket-Protocol": "chat"})) is None
