"""Tacotron 2's codec in chunks: what is heard when, and how near it is to one shot."""

import numpy as np
import pytest
import torch

from tests.unit.ttsfamilies.codecs import overlapping, tacotron2, tacotron2_parts
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Arrays, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, Samples, Work
from ttsfamilies.tacotron2.codec import Overlap, OverlappingCodec

REQUEST = SpeechRequest("r", "m", "slt", "text")
HOP, FRAMES = 256, 75


def mel() -> Arrays:
    """Frames that change as slowly as speech does, in two sentences."""
    drawn = np.random.default_rng(4).standard_normal((FRAMES + 8, 16))
    slow = np.stack([np.convolve(row, np.full(9, 1 / 3), "valid") for row in drawn.T], 1)
    begins = np.isin(np.arange(FRAMES), (0, 42))
    return {"mel": slow.astype(np.float32), "begins": begins.astype(np.uint8)}


def decoded(codec: Codec, sizes: tuple[int, ...] = ()) -> list[Samples]:
    """Samples of each piece; the last one has the rest."""
    state, found, at = codec.open(REQUEST), [], 0
    for stop in (*sizes, FRAMES):
        work = Work(state, cut(mel(), at, stop), final=stop == FRAMES)
        found += codec.decode([work])
        at = stop
    return found


def in_chunks(frames: int, again: int, *, power: bool = False) -> OverlappingCodec:
    return OverlappingCodec("m", *tacotron2_parts(), Overlap(frames, again, power))


def off(codec: Codec) -> float:
    """Root of the mean square of what differs from one shot, in shares of the sound's."""
    exact = np.concatenate(decoded(tacotron2()))
    found = np.concatenate(decoded(codec))
    return float((found - exact).std() / exact.std())


@pytest.mark.parametrize("power", [False, True])
def test_weights_of_a_fade_add_up(power: bool) -> None:
    rising, falling = Overlap(32, 8, power).weights(500, torch.zeros(1, dtype=torch.float64))
    whole = rising**2 + falling**2 if power else rising + falling
    torch.testing.assert_close(whole, torch.ones_like(whole), rtol=0, atol=1e-12)
    assert (rising.diff() > 0).all()


def test_a_chunk_is_heard_but_for_what_is_decoded_again() -> None:
    pieces = decoded(in_chunks(16, 4), (15, 16, 17, 32, 41, 48))
    # The chunk up to 48 holds the second sentence's first frames; the first one's are all heard.
    heard = np.cumsum([len(piece) for piece in pieces]) // HOP
    assert heard.tolist() == [0, 12, 12, 28, 28, 44, FRAMES]


def test_frames_far_from_borders_are_those_of_one_shot() -> None:
    exact, found = (np.concatenate(decoded(c)) for c in (tacotron2(), in_chunks(FRAMES, 8)))
    np.testing.assert_allclose(found, exact, 0, 1e-6)


def test_more_overlap_is_nearer_and_the_papers_weights_are_further_away() -> None:
    some, more = off(in_chunks(16, 4)), off(in_chunks(16, 8))
    assert more < some
    assert off(in_chunks(16, 8, power=True)) > 2 * more


def test_other_voices_are_refused() -> None:
    for codec in (tacotron2(), overlapping()):
        with pytest.raises(UnknownVoice):
            codec.open(SpeechRequest("r", "m", "stranger", "text"))
