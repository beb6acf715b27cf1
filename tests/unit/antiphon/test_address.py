"""Addresses as people write them."""

from __future__ import annotations

import pytest

from antiphon.client import Address, GatewayError


@pytest.mark.parametrize(
    ("given", "url", "socket"),
    [
        ("http://a:8000", "http://a:8000", "ws://a:8000/v1/audio/speech/stream"),
        ("a:8000", "http://a:8000", "ws://a:8000/v1/audio/speech/stream"),
        ("https://a/v1", "https://a", "wss://a/v1/audio/speech/stream"),
        ("https://a/speech/v1/", "https://a/speech", "wss://a/speech/v1/audio/speech/stream"),
        ("wss://a", "https://a", "wss://a/v1/audio/speech/stream"),
        (" http://[::1]:8000/ ", "http://[::1]:8000", "ws://[::1]:8000/v1/audio/speech/stream"),
    ],
)
def test_an_address_may_be_written_in_many_ways(given: str, url: str, socket: str) -> None:
    address = Address.parse(given)
    assert (address.url, address.socket) == (url, socket)


@pytest.mark.parametrize("given", ["", "http://", "ftp://a", "http://a:99999", "http://a:b", "://"])
def test_what_is_no_address_is_said_in_one_line(given: str) -> None:
    with pytest.raises(GatewayError, match="is no address of a gateway; give one such as"):
        Address.parse(given)


def test_a_key_goes_into_a_header() -> None:
    assert Address.parse("a", "secret").headers == {"authorization": "Bearer secret"}
    assert Address.parse("a").headers == {}
