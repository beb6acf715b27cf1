import numpy as np
import pytest

from ttscommon.wire.replicas import Voice
from vocoder.pcm import FULL_SCALE, gain_of, levelled, to_pcm


def test_halves_are_rounded_away_from_zero_and_what_is_too_loud_is_clipped() -> None:
    steps = np.array([0.5, 1.5, 2.49, -0.5, -1.5, -2.49, 0.0])
    assert to_pcm((steps / FULL_SCALE).astype(np.float32)).tolist() == [1, 2, 2, -1, -2, -2, 0]
    assert to_pcm(np.array([2.0, -2.0, 1.0], np.float32)).tolist() == [32767, -32768, 32767]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(FloatingPointError):
        to_pcm(np.array([0.0, bad], np.float32))


def test_a_voice_is_as_much_louder_as_it_says_and_others_as_they_are_made() -> None:
    voices = (Voice("low", "Low", "en", gain_db=20 * np.log10(2.0)), Voice("plain", "Plain", "en"))
    samples = np.array([0.1, -0.3], np.float32)
    found = levelled(samples, gain_of(voices, "low"))
    np.testing.assert_allclose(found, [0.2, -0.6], rtol=1e-6)
    for name in ("plain", "somebody"):
        assert levelled(samples, gain_of(voices, name)) is samples
        assert gain_of(voices, name, 6.0) == pytest.approx(10 ** (6 / 20))
    assert gain_of(voices, "low", 6.0) == pytest.approx(2.0)


def test_a_blend_is_made_louder_by_the_shares_of_its_voices() -> None:
    voices = (Voice("af_sky", "Sky", "en", gain_db=6.0), Voice("am_kumo", "Kumo", "en"))
    assert gain_of(voices, "af_sky*2+am_kumo") == pytest.approx(10 ** (4 / 20))
    assert gain_of(voices, "af_sky+nobody") == 1.0


def test_peaks_are_bent_below_one_decibel_and_quieter_ones_stay_as_they_are() -> None:
    samples = np.linspace(-1.0, 1.0, 4001, dtype=np.float32)
    found = levelled(samples, 2.0)
    assert np.abs(found).max() <= np.float32(10 ** (-1 / 20))
    assert (np.diff(found) >= 0).all()
    below = np.abs(samples) * 2 <= 10 ** (-3 / 20)
    np.testing.assert_array_equal(found[below], 2 * samples[below])
    parts = [levelled(part, 2.0) for part in np.split(samples, [1, 7, 500])]  # however it is cut
    np.testing.assert_array_equal(np.concatenate(parts), found)


def test_a_text_of_few_words_is_louder_where_its_voice_says_so() -> None:
    voices = (Voice("low", "Low", "en", gain_db=6.0, short_db=(4.0, 2.0)),)

    def gain_db(text: str | None) -> float:
        return float(20 * np.log10(gain_of(voices, "low", text=text)))

    told = {
        "Yes.": 10.0,
        "Don\u2019t!": 10.0,
        "Good morning.": 8.0,
        "How are you?": 6.0,
        "2026": 6.0,
    }
    assert {text: pytest.approx(gain_db(text)) for text in told} == told
    assert gain_db(None) == pytest.approx(6.0)  # more text may come
    assert gain_db("...") == pytest.approx(6.0)
