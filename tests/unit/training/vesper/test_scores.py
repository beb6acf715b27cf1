"""Rates, intervals, and what three judges say of a sentence."""

from pathlib import Path

import numpy as np
import pytest

from voicetrain.vesper.judges import Judges, judged, normal_text
from voicetrain.vesper.scores import Scores, mean, misheard, ratio, word_error_rate
from voicetrain.vesper.teacher import Teacher

pytestmark = pytest.mark.slow

SENTENCE = "The weather report says it will rain on Friday."


def test_word_errors_are_counted_over_all_words() -> None:
    rate = word_error_rate(["a b c d", "e f"], ["a b x d", "e f g"])
    assert rate.value == pytest.approx(2 / 6)


def test_an_interval_holds_its_value_and_narrows_with_more_sentences() -> None:
    generator = np.random.default_rng(0)
    few, many = (mean(generator.normal(4, 1, count).tolist()) for count in (20, 2000))
    assert few.low < few.value < few.high
    assert many.high - many.low < 0.3 * (few.high - few.low)
    assert ratio([1, 1], [2, 2]).value == 0.5


def test_a_system_is_compared_with_another_text_by_text() -> None:
    plain = Scores(["a b", "c d"], ["a x", "c d"], [4.0, 3.0])
    other = Scores(["a b", "c d"], ["a b", "c d"], [4.5, 3.5])
    found = other.beside(plain)
    assert found["distillmos"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert found["wer"]["value"] == -0.25
    with pytest.raises(ValueError, match="same texts"):
        other.beside(Scores(["a b"], ["a b"], [4.0]))


def test_a_report_shows_the_words_that_differ() -> None:
    found = misheard("the old sea wall stands", "the bold wall stands still")
    assert found == [("old", "bold"), ("sea", ""), ("", "still")]


def test_texts_are_compared_by_what_is_said() -> None:
    assert normal_text("It's half-past NINE!") == normal_text("it is half past 9")


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    pytest.importorskip("hibari", reason="the teacher belongs to the training environment")
    return Teacher().sound(SENTENCE)


def test_the_judges_understand_and_like_the_teacher(sound: np.ndarray, tmp_path: Path) -> None:
    scores = Scores()
    scores.add(Judges(tmp_path / "heard.jsonl"), SENTENCE, sound)
    report = scores.report()
    assert report["wer"]["value"] == 0
    assert report["distillmos"]["value"] > 4
    assert report["dnsmos"]["value"] > 3
    assert len((tmp_path / "heard.jsonl").read_text().splitlines()) == 3


def test_noise_is_disliked(sound: np.ndarray) -> None:
    judges, generator = Judges(), np.random.default_rng(0)
    noisy = sound + 0.05 * generator.standard_normal(len(sound)).astype(np.float32)
    clean, spoilt = judged(sound, 24_000), judged(noisy, 24_000)
    assert judges.distillmos(spoilt) < judges.distillmos(clean) - 1
    assert judges.dnsmos(spoilt) < judges.dnsmos(clean) - 0.5


def test_what_was_judged_before_is_remembered(sound: np.ndarray, tmp_path: Path) -> None:
    memory, audio = tmp_path / "heard.jsonl", judged(sound, 24_000)
    said = Judges(memory).distillmos(audio)
    memory.write_text(memory.read_text().replace(str(said), "1.5"))
    assert Judges(memory).distillmos(audio) == 1.5
