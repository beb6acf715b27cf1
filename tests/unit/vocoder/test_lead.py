"""Silence in front of a request: how much of it there is, whoever decodes it."""

import numpy as np
import numpy.typing as npt
import pytest

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec, Decoded
from vocoder.engine.lead import Lead
from vocoder.engine.stream import Resume, Stream

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
