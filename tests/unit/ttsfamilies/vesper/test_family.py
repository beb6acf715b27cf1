"""What the vesper family does beyond what all families owe: paces, presets, pauses, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from talker.engine.draft_lengths import DraftLengths
from talker.engine.engine import Engine
from talker.synthesis import SynthesizedSpeech, synthesise
from tests.unit.ttsfamilies.tiny_vesper import SILENCE, Letters, tiny
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.text.frontend import Substitution, Utterance, Word
from ttsfamilies.vesper import family
from ttsfamilies.vesper.family import Vesper
from ttsfamilies.vesper.stream import Conditioning, SpokenUnits, Unit, VesperSampling


@pytest.fixture(scope="module")
def model() -> Vesper:
    return tiny()


def request(text: str = "one two", **changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", **{"voice": "slt", "seed": 4, "text": text, **changes})


def spoken(model: Vesper, asked: SpeechRequest) -> SynthesizedSpeech:
    (one,) = synthesise(Engine(model, blocks=64, slots=1, metrics=Metrics()), [asked])
    return one


def test_an_unknown_preset_is_refused_by_name(model: Vesper) -> None:
    with pytest.raises(UnknownVoice, match="slt, low"):
        model.prepare(request(voice="hal"))


def test_speed_and_preset_tell_the_net_one_pace(model: Vesper) -> None:
    def told(**changes: Any) -> np.ndarray[Any, Any]:
        (unit,) = model.prepare(request(**changes)).read([Text("one two")], final=True)
        return np.asarray(unit.conditioning.at)

    np.testing.assert_allclose(told(voice="low"), told(speed=0.9), rtol=1e-5, atol=1e-6)
    assert np.abs(told(speed=1.2) - told()).max() > 1e-3


@pytest.mark.parametrize(("language", "told"), [("en-GB", True), ("en-US", False), ("en", False)])
def test_the_language_of_a_request_decides_how_its_text_is_read(
    model: Vesper, monkeypatch: pytest.MonkeyPatch, language: str, told: bool
) -> None:
    asked: list[bool] = []

    def phones(text: str, given: Sequence[Substitution] = (), british: bool = False) -> Utterance:
        asked.append(british)
        return Letters().phones(text, given)

    monkeypatch.setattr(model, "_phones", phones)
    list(model.prepare(request(language=language)).read([Text("one two")], final=True))
    assert asked == [told]


class Fixed(DraftLengths):
    """Always so many frames tried."""

    width = 1

    def choose(self, streams: int, rounds: int = 1) -> int:
        return self.width


@pytest.mark.parametrize("width", [1, 2, 4])
def test_rounds_of_one_launch_say_what_launches_say(
    model: Vesper, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time stands still, so that all are well supplied behind their first second."""
    monkeypatch.setattr(Fixed, "width", width)
    asked = [
        structs.replace(request("a bee sees the sea " * n), request_id=str(n)) for n in (2, 3, 4)
    ]
    found, launches = [], []
    for rounds in (1, 4):
        monkeypatch.setattr(model, "spec", replace(model.spec, rounds=rounds))
        engine = Engine(
            model,
            blocks=96,
            slots=3,
            metrics=Metrics(),
            draft_lengths=Fixed,
            clock=lambda: 0.0,
        )
        counted: list[Any] = []
        engine.on_step = lambda *step, counted=counted: counted.append(step)
        found.append([one.arrays for one in synthesise(engine, asked)])
        launches.append(len(counted))
    for one, other in zip(*found, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    assert launches[1] < 0.6 * launches[0]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_step_that_begins_an_utterance_says_what_a_prompt_would(
    model: Vesper, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Utterances begin beside others that go on, and behind pauses."""
    monkeypatch.setattr(Fixed, "width", width)
    text = "a bee. sees the sea. so do we"
    asked = [structs.replace(request(" ".join([text] * n)), request_id=str(n)) for n in (1, 2, 3)]
    found, prompts = [], []
    for begins in (True, False):
        opened = model.open

        def open_(prepared: Any, opened: Any = opened, begins: bool = begins) -> Any:
            stream = opened(prepared)
            stream._steps_begin = begins
            return stream

        with monkeypatch.context() as patch:
            patch.setattr(model, "open", open_)
            computed: list[int] = []
            prefill = model.prefill

            def prefill_(
                rows: Any, *rest: Any, kept: Any = computed, prefill: Any = prefill
            ) -> Any:
                kept.append(rows.real)
                return prefill(rows, *rest)

            patch.setattr(model, "prefill", prefill_)
            engine = Engine(model, blocks=96, slots=3, metrics=Metrics(), draft_lengths=Fixed)
            found.append([one.arrays for one in synthesise(engine, asked)])
            prompts.append(len(computed))
    for one, other in zip(*found, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    assert prompts[0] == 0
    assert prompts[1] > 5


def test_where_nothing_can_be_compiled_a_step_has_a_frame_of_each_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(family, "halve", lambda _module: False)
    model = tiny()
    assert (model.spec.width, model.spec.rounds) == (1, 1)
    engine = Engine(model, blocks=96, slots=3, metrics=Metrics())
    sizes: list[int] = []
    engine.on_step = lambda _took_s, keys: sizes.append(len(keys))
    asked = [structs.replace(request(), request_id=str(n)) for n in range(3)]
    assert all(len(one.arrays["codes"]) for one in synthesise(engine, asked))
    assert sizes.count(3) > 5


def test_a_words_own_rate_is_told_at_its_tokens_alone(model: Vesper) -> None:
    utterance = Letters().phones("one two")
    slower = replace(utterance, words=(utterance.words[0]._replace(rate=0.8), utterance.words[1]))
    (plain,), (told,) = model._tell(utterance, 1.0), model._tell(slower, 1.0)
    (calm,) = model._tell(utterance, 0.8)
    word = plain.words[0]
    inside: np.ndarray[Any, Any] = np.zeros(len(plain.at), bool)
    inside[word.start : word.end] = True
    np.testing.assert_array_equal(told.at[~inside], plain.at[~inside])
    np.testing.assert_allclose(told.at[inside], calm.at[inside], rtol=1e-5, atol=1e-6)
    assert (told.at[inside] != plain.at[inside]).any()
    np.testing.assert_array_equal(told.begin, plain.begin)


def test_a_words_own_rate_stays_within_the_voices_speeds(model: Vesper) -> None:
    utterance = Letters().phones("one two")
    words = tuple(word._replace(rate=0.1) for word in utterance.words)
    (slowest,) = model._tell(replace(utterance, words=words), 1.0)
    words = tuple(word._replace(rate=0.7) for word in utterance.words)
    (least,) = model._tell(replace(utterance, words=words), 1.0)
    np.testing.assert_array_equal(slowest.at, least.at)


def test_words_are_timed_by_units() -> None:
    words = (Word("a", 1, 3), Word("b", 4, 5))
    told = Conditioning(np.zeros(2), np.zeros((6, 2)), lambda: np.zeros((6, 1)), words)
    progress = SpokenUnits(Unit(told))
    # The pointer: 0 0 | 1 2 | 3 3 | 3 4 | 4 4 | 5 5, one unit each.
    tokens = [*progress.move([9] * 2, [2, 3]), *progress.move([9] * 4, [0, 1, 2, 2])]
    assert tokens == [(0, 0), (1, 2), (3, 3), (3, 4), (4, 4), (5, 5)]
    assert progress.pointers == [0, 1, 3, 3, 4, 5, 6]
    assert progress.held == [0, 0, 0, 2, 1, 0, 0]
    assert list(progress.words()) == [(words[0], 2, 4), (words[1], 7, 10)]
    assert progress.over


def test_a_long_utterance_fits_the_cache_however_slowly_it_is_spoken(model: Vesper) -> None:
    sampling = VesperSampling(longest_units=600)
    slow = Vesper(model.spec, model._net, Letters(), sampling, {"slt": 1.0}, SILENCE)
    text = " ".join(["mississippi"] * 24)
    arrays = spoken(slow, request(text, sampling=Sampling(temperature=2.0))).arrays
    assert 0 < rows(arrays) < slow.spec.max_positions
