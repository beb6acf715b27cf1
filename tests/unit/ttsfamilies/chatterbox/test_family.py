"""What Chatterbox's requests may ask, how texts are divided, and what a sentence promises."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.late import Late
from tests.parity.material import audio
from tests.unit.ttsfamilies.chatterbox.tiny import tiny
from tests.unit.ttsfamilies.test_conformance import Bench, request
from ttscommon.engine.checkpoint import CheckpointError, dump_json
from ttscommon.engine.runtime import Finished
from ttscommon.wire.errors import BadRequest, TextTooLong, UnknownVoice
from ttscommon.wire.fields import Arrays, cut
from ttscommon.wire.pieces import Text
from ttsfamilies.chatterbox.facts import SILENCE
from ttsfamilies.chatterbox.request import ChatterboxPrepared, SentencePrompt
from ttsfamilies.chatterbox.tokenizer import Graphemes, evened
from ttsfamilies.chatterbox.voices import levelled, loudness, windows


def prepared(kind: str = "english", **asked: Any) -> ChatterboxPrepared:
    return tiny(kind).prepare(request(**{"text": "", **asked}))


def read(text: str, kind: str = "english", **asked: Any) -> list[SentencePrompt]:
    return list(prepared(kind, **asked).read([Text(text)], final=True))


def said(text: str, kind: str = "english", restored: Arrays | None = None) -> Arrays:
    bench = Bench(tiny(kind, most=9))
    heard = bench.open(request(text=text), restored)
    bench.run()
    assert isinstance(heard.end, Finished)
    return heard.arrays


def test_a_sentence_is_a_passage_and_a_clause_is_none() -> None:
    assert len(read('It is odd, and "it is." Is it? One, two; three...')) == 3
    assert len(read('It is ("odd.") **Is it?** **It is!** So')) == 4


def test_who_is_not_guided_has_one_branch_and_the_same_positions() -> None:
    alone, guided = (prepared(extra_params={"cfg_weight": weight}) for weight in (0.0, 0.5))
    assert (alone.branches, guided.branches, prepared("turbo").branches) == (1, 2, 1)
    (one,), (other,) = (each.read([Text("It is.")], final=True) for each in (alone, guided))
    assert one == other


def test_punctuation_is_evened_out_as_the_model_was_taught() -> None:
    text = "it \u2014 \u201cis\u201d;odd: so...yes - no"
    assert evened(text, gpt=False) == 'It - "is", odd, so, yes, no.'
    assert evened(text, gpt=True) == 'It - "is";odd, so...yes - no.'
    assert evened("so\u3002", gpt=False, multilingual=True) == "So\u3002"


def test_a_tokenizer_without_a_space_of_its_own_is_named(tmp_path: Path) -> None:
    known = {"a": 0, "[START]": 1, "[STOP]": 2}
    plain = {"model": {"type": "BPE", "vocab": known, "merges": []}}
    dump_json(tmp_path / "tokenizer.json", plain)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json has no \[SPACE\]"):
        Graphemes.load(tmp_path, 3, gpt=False, multilingual=False)


def test_a_text_says_its_language_where_the_model_speaks_several() -> None:
    (german,), (english,) = (read("So.", "multilingual", language=code) for code in ("de-AT", "en"))
    assert len(german.ids) == len(english.ids)
    assert sum(a != b for a, b in zip(german.ids, english.ids, strict=True)) == 1
    with pytest.raises(BadRequest, match="language"):
        read("So.", "multilingual", language="ja")


def test_control_tokens_in_a_text_are_text() -> None:
    (sentence,) = read("a [STOP] b")
    assert sentence.ids.count(0) == 1
    assert sentence.ids[-1] == 0
    (laughed,), (spelt,) = read("a [laugh] b", "turbo"), read("a [laugx] b", "turbo")
    assert len(laughed.ids) < len(spelt.ids)


def test_what_cannot_be_spoken_is_refused() -> None:
    with pytest.raises(UnknownVoice):
        tiny().prepare(msgspec.structs.replace(request(), voice="nobody"))
    with pytest.raises(TextTooLong):
        read("a" * 600)
    with pytest.raises(BadRequest):
        prepared("turbo", extra_params={"cfg_weight": 0.5})
    with pytest.raises(BadRequest, match="cannot clone"):
        tiny().derive(b"")


def test_a_successor_says_as_many_tokens_as_were_promised() -> None:
    """As on a device, whose successor may find an end before the one that it found."""
    text = "One small step, said the talker. So."
    whole = said(text)
    begun = cut(whole, 0, 1)
    assert 0 < begun["left"][0] < 6, "the model ends the sentence by itself"
    for more in (0, 2):
        promised = begun | {"left": begun["left"] + np.int32(more)}
        found = said(text, restored=promised)
        first = found["passage"] == 0
        assert first.sum() == promised["left"][0]
        assert found["left"][first].tolist() == list(range(int(first.sum())))[::-1]
    assert SILENCE in found["token"][first]


def test_a_device_says_what_the_cpu_says() -> None:
    def heard(*, late: bool) -> list[Arrays]:
        family = tiny(most=4)
        if late:
            family.compute_on(Late())
        bench = Bench(family, int(late), blocks=24)
        streams = [bench.open(request(f"r{seed}", "It is odd.", seed=seed)) for seed in (1, 2)]
        bench.run()
        return [stream.arrays for stream in streams]

    for one, other in zip(heard(late=True), heard(late=False), strict=True):
        np.testing.assert_array_equal(one["token"], other["token"])


def test_a_recording_is_levelled_and_has_windows_beyond_it_where_most_of_one_is_heard() -> None:
    assert [windows(frames) for frames in (1, 83, 160, 204, 205, 237)] == [1, 1, 1, 1, 2, 2]
    speech = audio(3.0, 4)
    assert loudness(levelled(speech, 24_000, -27.0), 24_000) == pytest.approx(-27.0, abs=1e-3)
    silence = np.zeros(24_000, np.float32)
    np.testing.assert_array_equal(levelled(silence, 24_000, -27.0), silence)
