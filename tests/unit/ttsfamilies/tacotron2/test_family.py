"""What Tacotron 2 refuses, spells and watches for."""

import numpy as np
import pytest

from tests.unit.ttsfamilies.tacotron2.tiny import tiny
from ttscommon.wire.errors import BadRequest, UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.guard import Seen, Watch
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.base.text.frontend import Utterance, Word
from ttsfamilies.base.text.ipa import PAUSE, Phone
from ttsfamilies.tacotron2.request import MOST_IDS, TacotronStream, spelt_out


def request(text: str = "One.", voice: str = "slt", **changes: object) -> SpeechRequest:
    return SpeechRequest("r", "m", voice, text, **changes)  # type: ignore[arg-type]


def opened(text: str) -> TacotronStream:
    family, asked = tiny(200), request(text)
    prepared = family.prepare(asked)
    stream = family.open(prepared)
    stream.feed(list(prepared.read([Text(text)], final=True)), final=True)
    return stream


def test_other_voices_and_settings_are_refused() -> None:
    with pytest.raises(UnknownVoice):
        tiny().prepare(request(voice="stranger"))
    with pytest.raises(BadRequest):
        tiny().prepare(request(extra_params={"prenet_dropout": 1.0}))


def phones(*words: int) -> tuple[Phone, ...]:
    """A pause, and then a phone for each word; -1 is a pause."""
    return tuple(Phone(PAUSE if word < 0 else "ah0", word, True) for word in (-1, *words))


def test_words_are_spelt_as_they_are_read_with_the_marks_behind_them() -> None:
    words = (Word("Dr.", 1, 2, "doctor"), Word("Who,", 2, 3, "who"), Word("3", 4, 5, "three"))
    found = spelt_out(Utterance(phones(0, 1, -1, 2, -1), words, (",", "")))
    assert "".join(found.symbols) == "doctor who, three."
    spelt = ["".join(found.symbols[word.start : word.end]) for word in found.words]
    assert spelt == ["doctor", "who", "three"]


def test_a_sentence_that_is_too_long_is_spoken_in_parts() -> None:
    prepared = tiny().prepare(request())
    parts = list(prepared.read([Text("so it goes on and on " * 20)], final=True))
    assert len(parts) > 2
    assert all(len(part.ids) <= MOST_IDS for part in parts)


def test_a_step_is_told_of_the_frame_before_it_and_a_prompt_of_all() -> None:
    stream = opened("One two.")
    mel = np.arange(3 * 16, dtype=np.float32).reshape(3, 16)
    told = {"begins": [1, 0, 0], "ends": [0] * 3, "place": [2, 1, 4], "passage": [0] * 3}
    stream.restore({"mel": mel, **{name: np.array(values) for name, values in told.items()}})
    plan = stream.plan(0)
    assert plan is not None
    assert (plan.start, plan.count) == (0, 4)
    np.testing.assert_array_equal(stream.inputs(plan)["mel"], [np.zeros(16), *mel])
    assert list(stream.progress().reached) == [2, 2, 4]


def test_a_successor_behind_an_end_goes_on_with_the_next_sentence() -> None:
    stream = opened("One. Two.")
    ended = {"begins": [1], "ends": [1], "place": [3], "passage": [0]}
    mel = np.zeros((1, 16), np.float32)
    stream.restore({"mel": mel, **{name: np.array(values) for name, values in ended.items()}})
    assert stream.progress().begun == 1
    assert not stream.done


def test_long_prompts_are_cut_as_steps_that_follow_one_another_cost() -> None:
    stream = opened("One two.")
    told = {"begins": 0, "ends": 0, "place": 1, "passage": 0}
    ahead = {"mel": np.zeros((99, 16), np.float32)}
    stream.restore({**ahead, **{name: np.full(99, value) for name, value in told.items()}})
    plan = stream.plan(0)
    assert plan is not None
    first, rest = plan.cut(512)
    assert rest is not None
    assert (first.count, first.work, first.partial) == (32, 512, True)
    assert (rest.start, rest.count, rest.work) == (32, 68, 68 * 16)


def test_attention_that_stands_still_is_a_sign() -> None:
    family = tiny()
    assert family.signs is not None
    watch = Watch(family.signs, family.spec.frame_rate_hz)
    assert watch.find(Seen(200, 0, (), [5] * 200, 1e9)) == "stall"
    assert watch.find(Seen(200, 0, (), list(range(200)), 1e9)) is None
    ServedFamily(family)
