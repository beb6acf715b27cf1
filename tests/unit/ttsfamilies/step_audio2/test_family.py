"""What Step-Audio 2's prompts hold, and what it refuses."""

from typing import Any

import numpy as np
import pytest

from tests.unit.ttscommon.sound.test_recordings import wav
from tests.unit.ttsfamilies.step_audio2.tiny import VOICE, tiny, written
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Text
from ttsfamilies.step_audio2.family import rows_of

SOUND = Reference("0" * 16 + "-" + "0" * 64)


def rows(count: int) -> Arrays:
    return {"row": np.arange(count * 32, dtype=np.float32).reshape(count, 32)}


@pytest.mark.parametrize(("seconds", "count"), [(0.5, 6), (1.0, 13), (7.3, 91), (25.0, 313)])
def test_sound_has_as_many_rows_as_the_authors_count(seconds: float, count: int) -> None:
    assert rows_of(int(16_000 * seconds)) == count


def test_voice_and_answer_share_what_the_flow_takes() -> None:
    voice = {"token": np.zeros(2400, np.int16)}
    request = SpeechRequest("r", "m", "", "Odd.", sampling=Sampling(max_new_tokens=4000))
    assert tiny(1 << 20).prepare(request, Derived(voice)).most_frames == 100


@pytest.mark.parametrize(
    ("told", "sounds", "error"),
    [
        ({"turns": (Turn(1, "Hi.", None),)}, (None,), NothingToSay),
        ({}, (), NothingToSay),
        ({"turns": (Turn(1, "", SOUND),)}, (rows(3),), BadRequest),
        ({"turns": (Turn(0, "", SOUND),)}, (rows(9000),), TextTooLong),
    ],
)
def test_it_refuses_what_it_cannot_answer(
    told: dict[str, Any], sounds: tuple[Any, ...], error: type[Exception]
) -> None:
    request = SpeechRequest("r", "m", "", "", **told)
    with pytest.raises(error):
        list(tiny().prepare(request, Derived(None, sounds)).read([Text("")], final=True))


def test_it_needs_a_voice() -> None:
    with pytest.raises(BadRequest, match="ref_audio"):
        written().prepare(SpeechRequest("r", "m", "", "Odd."))


def test_voices_and_turns_are_heard_apart() -> None:
    model = tiny()
    voice, said = model.derive(wav(1.5)), model.hear(wav(0.2))
    assert voice.keys() == {"token", "mel", "speaker"}
    assert len(voice["mel"]) == 2 * len(voice["token"])
    assert len(voice["token"]) == 38
    assert said.keys() == {"row"}
    assert said["row"].shape == (rows_of(3200), 32)
    assert VOICE.keys() <= voice.keys()
