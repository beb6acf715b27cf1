"""What GLM-4-Voice answers, where no reference says it: words beside frames, and refusals."""

from typing import Any

import pytest

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.subject import answered
from tests.unit.ttscommon.sound.test_recordings import wav
from tests.unit.ttsfamilies.glm_voice.tiny import tiny
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.fields import Arrays, Derived, cut
from ttscommon.wire.messages import Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.answers import MOST_BETWEEN, NO_ID, REPLAY, AnswerIds, AnswerStream

IDS = AnswerIds(1000, 16_384, (5,))
ASKED: Any = None  # nothing is drawn


def request(text: str = "Hello.", **changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", changes.pop("voice", "slt"), text, seed=7, **changes)


class Spelling(AnswerStream):
    """Ids between frames are bytes."""

    def __init__(self) -> None:
        super().__init__(ASKED, IDS, bytes, 12.5)

    def begin(self, write: Any) -> None: ...
    def positions(self, branch: int) -> Arrays:
        return {}


def test_characters_come_once_and_whole_wherever_a_successor_begins() -> None:
    euro = "\u20ac".encode()
    words = (b"It costs ", b"", b"5 " + euro[:1], euro[1:2], b"", euro[2:] + b"!", b"")
    logged = answered([id for said in words for id in (*said, 1000)], 1000, 16_384)
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


def test_what_cannot_be_answered_is_refused() -> None:
    model = tiny()
    with pytest.raises(UnknownVoice, match="slt"):
        model.prepare(request(voice="stranger"))
    unasked = request("", turns=(Turn(0, "Hello?"),))
    with pytest.raises(NothingToSay):
        list(model.prepare(unasked, Derived(None, (None,))).read([], final=True))
    with pytest.raises(TextTooLong, match="oldest turns"):
        list(model.prepare(request()).read([Text("word " * 4000)], final=True))
    with pytest.raises(BadRequest, match="is the least"):
        model.derive(wav(0.05, rate=16_000))
