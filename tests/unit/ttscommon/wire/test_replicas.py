"""What a worker tells of its voices: languages as tags, and a gender."""

from typing import Any

import msgspec
import pytest

from ttscommon.wire.replicas import MANY, Voice


@pytest.mark.parametrize(
    ("language", "languages", "spoken", "speaks", "not_"),
    [
        ("en-GB", (), ("en-GB",), ("en", "EN-us"), ("de", MANY)),
        (MANY, ("zh", "pt-BR"), ("zh", "pt-BR"), ("zh", "pt"), ("de", MANY)),
    ],
)
def test_a_voice_is_listed_under_its_native_language_and_speaks_it_in_every_region(
    language: str, languages: Any, spoken: Any, speaks: Any, not_: Any
) -> None:
    voice = Voice("v", "V", language, "female", languages)
    assert (voice.native, voice.spoken) == (spoken[0], spoken)
    assert all(map(voice.speaks, speaks))
    assert not any(map(voice.speaks, not_))


@pytest.mark.parametrize(
    "changes",
    [{"language": "en_US"}, {"language": "english"}, {"languages": ("",)}, {"gender": "f"}],
)
def test_a_voice_that_is_described_otherwise_is_refused(changes: dict[str, Any]) -> None:
    told = {"id": "v", "name": "V", "language": "en", **changes}
    with pytest.raises(ValueError, match="voice 'v'"):
        Voice(**told)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(told, Voice)
