"""Headers that say what became of a client's request."""

import pytest

from gateway.protocols.shared.context import chosen_headers
from gateway.requests import SpeechSpec
from ttscommon.wire.replicas import Model, Voice


def _spec(family: str, ignored: tuple[str, ...] = ()) -> SpeechSpec:
    model = Model("default", family, 24_000, 20.0)
    return SpeechSpec(model, Voice("v", "V", "en-US"), 24_000, ignored=ignored)


@pytest.mark.parametrize(
    ("family", "ignored", "text", "header"),
    [
        ("vesper", (), "Hello", None),
        ("vesper", ("instructions",), "Hello", "instructions"),
        ("vesper", ("instructions",), "Hello 你好", "instructions, text:Han"),
        ("qwen3_tts", (), "Hello 你好", None),
    ],
)
def test_what_is_left_out_is_named(
    family: str, ignored: tuple[str, ...], text: str, header: str | None
) -> None:
    assert chosen_headers(_spec(family, ignored), text).get("x-ignored") == header
