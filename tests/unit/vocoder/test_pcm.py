"""Samples as they are sent: rounded, as loud as a voice says, behind the silence in front."""

import numpy as np
import numpy.typing as npt
import pytest

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.codec.base import CodecSpec, Decoded
from vocoder.engine.stream import Resume, Stream
from vocoder.pcm import FULL_SCALE, Lead, gain_of, levelled, to_pcm


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


# Every vocoder finds the same silence in front of a request.


FRAME = 1_200
RATE = 24_000
SPEC = CodecSpec(
    "m", "f", RATE, FRAME, {"codes": Field((2,), "i2")}, context_frames=2, silence=(7, 8)
)
QUIET = 600
KEPT = RATE * 3 // 1_000


def sound(frames: int) -> npt.NDArray[np.float32]:
    """A tone behind so much quiet."""
    samples = np.full(frames * FRAME, 0.1, np.float32)
    samples[:QUIET] = 0.001
    return samples


def leads(resume: Resume, codes: tuple[int, int] = (1, 2), at_once: int = 1) -> list[int]:
    """What is told with each piece of four frames."""
    stream = Stream(SpeechRequest("r", "m", "v", ""), SPEC, None, 0.0, resume)
    whole, told = sound(4), []
    stream.feed({"codes": np.array([codes] * (4 - stream.begin), np.int16)})
    for frame in range(stream.begin, 4, at_once):
        work = stream.take(at_once)
        samples = whole[frame * FRAME : (frame + at_once) * FRAME]
        pcm = stream.collect(work, Decoded(samples), 1.0)
        told += [stream.piece(pcm).lead] if len(pcm) else []
    return told


def test_a_sound_is_told_with_the_silence_before_it_and_keeps_its_attack() -> None:
    assert leads(Resume()) == [QUIET - KEPT] * 4
    assert leads(Resume(), at_once=2) == [QUIET - KEPT] * 2


@pytest.mark.parametrize(
    ("resume", "told"),
    [
        *((Resume(skip), QUIET - KEPT) for skip in (1, FRAME, FRAME + 5)),  # it finds the same
        (Resume(3 * FRAME, 3, b"", 55), 55),  # it goes on behind it, and was told
    ],
)
def test_a_successor_says_the_same(resume: Resume, told: int) -> None:
    assert set(leads(resume)) == {told}


def test_a_pause_that_was_asked_for_is_heard() -> None:
    assert set(leads(Resume(), codes=(7, 8))) == {0}


def test_silence_in_front_ends_with_the_first_frame() -> None:
    lead = Lead(SPEC)
    lead.begin({"codes": np.array([[1, 2]], np.int16)})
    lead.hear(np.zeros(3 * FRAME, np.int16))
    assert lead.samples == FRAME - KEPT


def test_without_a_silence_of_its_own_nothing_is_left_out() -> None:
    lead = Lead(CodecSpec("m", "f", RATE, FRAME, {"codes": Field((2,), "i2")}))
    lead.begin({"codes": np.array([[1, 2]], np.int16)})
    lead.hear(np.zeros(FRAME, np.int16))
    assert lead.samples == 0
