"""What GLM-4-Voice answers, where no reference says it: words beside frames, and refusals."""

from typing import Any

import numpy as np
import pytest

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.unit.ttscommon.sound.test_recordings import wav
from tests.unit.ttsfamilies.glm_voice.tiny import tiny
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.fields import Arrays, Derived, cut
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.turns import MOST_BETWEEN, NO_ID, REPLAY, AnswerIds, AnswerStream

SOUND = Reference(f"{'a' * 16}-{'b' * 64}")
IDS = AnswerIds(1000, 16_384, (5,))


def request(text: str = "Hello.", **changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", changes.pop("voice", "slt"), text, seed=7, **changes)


class Spelling(AnswerStream):
    """Ids between frames are bytes."""

    def __init__(self) -> None:
        super().__init__(IDS, bytes, 12.5)

    def begin(self, write: Any) -> None: ...
    def positions(self, branch: int) -> Arrays:
        return {}


def frames(*texts: bytes) -> Arrays:
    """A frame for each, which that was said before."""
    between = [list(text) + [NO_ID] * (MOST_BETWEEN - len(text)) for text in texts]
    silent = np.zeros(len(texts), np.uint8)
    token = np.arange(len(texts), dtype=np.int16)
    return {"token": token, "between": np.array(between, np.int32), "silent": silent}


def test_characters_come_once_and_whole_wherever_a_successor_begins() -> None:
    euro = "\u20ac".encode()
    logged = frames(b"It costs ", b"", b"5 " + euro[:1], euro[1:2], b"", euro[2:] + b"!", b"")
    for known, at in enumerate((0, 9, 9, 11, 11, 11, 13, 13)):
        stream = Spelling()
        if known:
            stream.restore(cut(logged, 0, known))
        stream._gain(cut(logged, known, 7))
        said = [piece for _ in range(7 - known) for piece in stream.take(1).said]
        assert "".join(piece.text for piece in said) == "It costs 5 \u20ac!"[at:], known
        for piece in said:
            assert piece.start == at
            at = piece.end


def test_words_without_sound_travel_with_silence() -> None:
    model = tiny()
    model.ids = AnswerIds(model.ids.first, 0, ())  # no id is sound
    engine = Engine(model, slots=1, blocks=96, metrics=Metrics())
    asked = request(sampling=Sampling(temperature=0.9, max_new_tokens=70))
    (spoken,) = synthesise(engine, [asked])
    assert spoken.arrays["silent"].tolist() == [1, 1, 1]
    counts = (spoken.arrays["between"] != NO_ID).sum(1).tolist()
    assert counts == [MOST_BETWEEN, MOST_BETWEEN, 70 - 2 * MOST_BETWEEN]
    for name, field in REPLAY.items():
        assert field.checked(name, spoken.arrays[name]).any()


def prompt(asked: SpeechRequest, *sounds: Arrays | None) -> list[int]:
    (found,) = tiny().prepare(asked, Derived(None, sounds)).read([Text(asked.text)], final=True)
    return list(found.ids)


def test_a_spoken_turn_needs_no_text_and_text_may_stand_beside_it() -> None:
    model = tiny()
    heard = model.derive(wav(0.4, rate=16_000))
    assert heard["codes"].shape == (5, 1)
    alone = prompt(request("", turns=(Turn(sound=SOUND),)), heard)
    beside = prompt(request("Briefly!", turns=(Turn(sound=SOUND),)), heard)
    assert len(beside) > len(alone)
    assert {model.ids.first + int(code) for code in heard["codes"][:, 0]} <= set(alone)


def test_what_cannot_be_answered_is_refused() -> None:
    model = tiny()
    with pytest.raises(UnknownVoice, match="slt"):
        model.prepare(request(voice="stranger"))
    with pytest.raises(NothingToSay):
        prompt(request("", turns=(Turn(0, "Hello?"),)), None)
    with pytest.raises(TextTooLong, match="oldest turns"):
        prompt(request("word " * 4000))
    with pytest.raises(BadRequest, match="is the least"):
        model.derive(wav(0.05, rate=16_000))
