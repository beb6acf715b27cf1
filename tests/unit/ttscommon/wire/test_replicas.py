"""What a worker tells of its voices: languages as tags, and a gender."""

from typing import Any

import msgspec
import pytest

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.replicas import MANY, Model, Replica, Voice


def test_a_voice_of_one_language_speaks_it_in_every_region() -> None:
    voice = Voice("emma", "Emma", "en-GB", "female")
    assert (voice.native, voice.spoken) == ("en-GB", ("en-GB",))
    assert [voice.speaks(tag) for tag in ("en", "EN-us", "de")] == [True, True, False]


def test_a_voice_of_many_languages_is_listed_under_its_native_one() -> None:
    voice = Voice("vivian", "Vivian", MANY, "female", ("zh", "en", "pt-BR"))
    assert (voice.native, voice.spoken) == ("zh", ("zh", "en", "pt-BR"))
    assert [voice.speaks(tag) for tag in ("pt", "de", MANY)] == [True, False, False]


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


def test_a_report_keeps_what_voices_are_and_older_ones_are_understood() -> None:
    voice = Voice("vivian", "Vivian", MANY, "female", ("zh", "en"))
    model = Model("m", "f", 24_000, 12.5, (voice, Voice("old", "Old", "en")))
    replica = Replica("w", "talker", (model,), 4, 4)
    assert Replica.decode(replica.encode()) == replica
    older = replica.encode().replace(b',"gender":null,"languages":[]', b"")
    assert Replica.decode(older) == replica
    with pytest.raises(MalformedMessage):
        Replica.decode(replica.encode().replace(b'"zh"', b'"zh_CN"'))
