"""What of a stream's state a flow without a mask keeps, and what streams of a voice share."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.unit.ttsfamilies.cosyvoice.s3_flow.tiny import AMPLE, networks, recording, tiny
from ttscommon.cluster.admission.capacity import cached_streams
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Replica
from ttsfamilies.base.codec.base import Samples, Work
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.passage import Passage
from ttsfamilies.cosyvoice.s3_flow.past import Pair, Past
from ttsfamilies.cosyvoice.s3_flow.sizes import FRAME_SAMPLES
from ttsfamilies.cosyvoice.s3_flow.sound import Phase, Sound, together
from ttsfamilies.cosyvoice.s3_flow.stretches import (
    S3Stream,
    noise_from,
    reach,
    shortened,
    stretch_end,
)

PROMPT = 60
REQUEST = SpeechRequest("r", "m", "", "text")


def flow(memory: int = AMPLE) -> S3Flow:
    return tiny("step_audio2", memory=memory)


def opened(of: S3Flow, seed: int = 1) -> S3Stream:
    state = of.open(REQUEST)
    of.tell(state, recording(seed=seed))
    return state


def tokens(count: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).integers(0, 6561, count).astype(np.int16)


def spoken(of: S3Flow, state: S3Stream, said: Array, *sizes: int) -> Samples:
    """Samples of tokens, so many in each work, and the rest."""
    parts, at = [], 0
    for size in (*sizes, len(said)):
        part = said[at : at + size]
        at += len(part)
        if len(part):
            parts += of.decode([Work(state, {"token": part}, final=at == len(said))])
    return np.concatenate(parts)


def passage(of: S3Flow, count: int, at: int = 0, *, closed: bool = False) -> Passage:
    """Of PROMPT and `count` tokens, of which `at` are in what is carried."""
    prompt = of._prompt(recording(PROMPT))
    blank = of._stretches.blank(S3Stream(of.open(REQUEST).draws, 0, prompt), 0)
    whole = torch.cat((blank.tokens, torch.zeros(count, dtype=torch.int64)))
    return replace(blank, tokens=whole, closed=closed, kept=replace(blank.kept, tokens=at))


def test_a_recording_is_a_stretch_and_then_each_chunk_is_one() -> None:
    of = flow()
    ends = [stretch_end(passage(of, 80, at)) for at in (0, PROMPT, PROMPT + 25, PROMPT + 50)]
    assert ends == [PROMPT, PROMPT + 25, PROMPT + 50, PROMPT + 75]
    assert [reach(passage(of, count)) - PROMPT for count in (2, 27, 28, 52, 53)] == [
        0,
        0,
        25,
        25,
        50,
    ]


def test_the_last_chunk_is_what_is_left_when_no_whole_one_can_look_ahead() -> None:
    of = flow()
    left = [stretch_end(passage(of, count, PROMPT, closed=True)) - PROMPT for count in (1, 27, 28)]
    assert left == [1, 27, 25]
    assert reach(passage(of, 28, PROMPT, closed=True)) == PROMPT + 28


def test_noise_begins_where_the_authors_cache_ends() -> None:
    of = flow()
    at = (0, PROMPT, PROMPT + 25, PROMPT + 50, PROMPT + 75)
    assert [noise_from(passage(of, 200, begin)) for begin in at] == [0, 120, 170, 220, 220]


def test_the_newest_frames_and_the_oldest_hundred_are_kept() -> None:
    """The authors' cache has the newest stretch first; of each, the frames are in their order."""
    frames = torch.cat([torch.arange(first, last) for first, last in ((220, 270), (170, 220))])
    frames = torch.cat((frames, torch.arange(120, 170), torch.arange(120)))
    part = frames[None, None, :, None].float()
    past = Past(len(frames), pairs=(Pair(part, -part),))
    of = flow()
    whole = passage(of, 100, PROMPT + 75)
    kept = shortened(replace(whole, kept=replace(whole.kept, pasts=(past,)))).kept.pasts[0]
    found = kept.pairs[0].keys.flatten().int().tolist()
    assert found == [*range(220, 270), *range(170, 220), *range(120, 140), *range(20, 120)]
    assert kept.pairs[0].values.flatten().int().tolist() == [-frame for frame in found]
    assert kept.steps == 2 * PROMPT + 100


def test_state_stays_bounded_and_grows_with_the_encoder_alone() -> None:
    of = flow()
    state = opened(of)
    sizes = []
    for _ in range(8):
        of.decode([Work(state, {"token": tokens(25)}, final=False)])
        assert state.passage is not None
        kept = state.passage.kept
        sizes.append((sum(past.nbytes for past in kept.pasts), kept.encoded.nbytes))
    assert len({flows for flows, _ in sizes[-3:]}) == 1
    assert of.state_use.held_bytes == sum(sizes[-1])


@pytest.mark.slow
def test_admission_hears_of_what_streams_will_carry_before_they_do() -> None:
    """Of two that have just begun it foretells as many more as when both have spoken."""
    alone, said, slots = flow(), tokens(60), 64
    alone.decode([Work(opened(alone), {"token": said}, final=False)])
    of = flow(memory=10 * alone.state_use.held_bytes)
    states, guesses = [opened(of), opened(of)], []
    for _ in range(2):
        (free, every), left = of.room, slots - len(states)
        replica = Replica("v", "vocoder", (), slots, left, kv_free=free, kv_positions=every)
        guesses.append(cached_streams(replica))
        for state in states:
            of.decode([Work(state, {"token": said}, final=False)])
    assert 8 <= guesses[0] <= guesses[1] <= 12, guesses
    for state in states:
        of.close(state)
    assert of.room == (every, every)


def test_joints_of_chunks_are_no_steps() -> None:
    """HiFT chunk by chunk, without a fade, gives the samples of all frames at once."""
    hift, count = networks("step_audio2").hift, 200
    drawn = torch.randn(hift.sizes.harmonics, count * FRAME_SAMPLES, dtype=torch.float64)
    mel = torch.randn(hift.sizes.mels, count).cumsum(1) * 0.1 - 3

    def heard(*ends: int) -> torch.Tensor:
        sound = Sound(hift, Phase.LINE)
        window, at, parts = sound.window(torch.zeros(hift.sizes.harmonics).double()), 0, []
        for end in ends:
            part = mel[:, at:end]
            work = sound.advance(
                window, part, lambda first, n: drawn[:, first : first + n],
                upto=count, complete=end == count,
            )  # fmt: skip
            ((window, samples),) = together([work])
            parts.append(samples)
            at = end
        return torch.cat(parts).detach()

    whole = heard(count)
    assert whole.abs().max() > 0.05
    torch.testing.assert_close(heard(50, 100, 150, count), whole, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_without_memory_chunks_are_solved_again_to_the_same_samples() -> None:
    said, ample, none = tokens(120), flow(), flow(memory=0)
    whole = spoken(ample, opened(ample), said, 30, 40)
    again = spoken(none, opened(none), said, 30, 40)
    np.testing.assert_allclose(again, whole, 0, 2e-4)
    assert none.state_use.recomputed > 0
    assert ample.state_use.recomputed == 0


def test_streams_of_a_voice_share_what_its_recording_leaves() -> None:
    of, said = flow(), tokens(40)
    one, other, third = opened(of), opened(of), opened(of, seed=2)
    alone = spoken(of, one, said)
    assert one.prompt is other.prompt
    assert one.prompt is not third.prompt
    assert other.prompt is not None
    assert other.prompt.opened.kept is not None
    np.testing.assert_allclose(spoken(of, other, said), alone, 0, 2e-4)


def test_more_than_the_authors_positions_is_refused() -> None:
    of = flow()
    with pytest.raises(MalformedMessage, match="5000"):
        of.decode([Work(opened(of), {"token": tokens(2490)}, final=True)])
