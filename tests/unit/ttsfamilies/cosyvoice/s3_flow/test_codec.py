"""The flow in the vocoder's engine: a step a launch, first sounds in front, bounded memory."""

from collections.abc import Sequence
from copy import deepcopy
from itertools import count

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.unit.ttsfamilies import codecs
from tests.unit.ttsfamilies.cosyvoice.s3_flow.tiny import (
    AMPLE,
    PROMPT,
    Tiny,
    networks,
    recording,
    tiny,
    told,
)
from ttscommon.cluster.admission.capacity import cached_streams
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Array, cut
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Replica
from ttsfamilies.base.codec.base import Due, Samples, Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.pages import S3Ticket
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, FRAME_SAMPLES, LOOKAHEAD, TOKEN_SAMPLES
from ttsfamilies.cosyvoice.s3_flow.sound import Asking, Sound, together
from ttsfamilies.cosyvoice.s3_flow.stretches import S3Stream
from vocoder.engine.stream import Finished

TURBO = "chatterbox_turbo"
# To the grid, whose first tokens are the recording's, and what is looked at.
FIRST = CHUNK - PROMPT + CHUNK + LOOKAHEAD


class Watched(Tiny):
    """Tells which streams each launch had solve, and which of them were done."""

    def __init__(self, of: S3Flow) -> None:
        vars(self).update(vars(of))
        self.steps: list[dict[int, bool]] = []
        self._states: list[object] = []  # kept, so that no other gets the id of one

    def launch(self, batch: Sequence[Work]) -> S3Ticket:
        self._states += [work.state for work in batch]
        found = super().launch(batch)
        solving = zip(batch, found.decoded, strict=True)
        self.steps.append({id(w.state): d.prepared for w, d in solving if w.segment is not None})
        return found


def tokens(count: int, passage: int = 0) -> dict[str, Array]:
    drawn = np.random.default_rng(count).integers(0, 6561, count).astype(np.int16)
    of = np.full(count, passage, np.int32)
    return {"token": drawn, "passage": of, "left": np.full(count, -1, np.int32)}


class Run(codecs.Run):
    """Streams of random tokens."""

    def open(self, key: str, count: int, *, final: bool = False) -> None:
        request = SpeechRequest(key, "m", "", "text", seed=3)
        self.begin(request, tokens(count), final=final)

    def samples(self, key: str) -> int:
        return len(self.pcm(key))


def test_a_newcomers_steps_wait_for_one_launch_at_the_most_whatever_others_solve() -> None:
    codec = Watched(tiny(TURBO, CHUNK))
    run = Run(codec)
    for number in range(3):
        run.open(f"old {number}", CHUNK + FIRST, final=True)
    for number in range(2):
        run.step(1 + number % 2)
        before, known = len(codec.steps), {s for step in codec.steps for s in step}
        run.open("new", FIRST)
        run.step(2 * codec.spec.solver_steps)
        launches = codec.steps[before:]
        (new,) = {s for step in launches for s in step} - known
        at = [i for i, step in enumerate(launches) if new in step]
        assert len(at) == codec.spec.solver_steps
        assert max(np.diff([-1, *at])) <= 2
        run.engine.cancel("new")
        run.step()
    run.step(40)
    assert all(isinstance(run.heard[f"old {n}"][-1], Finished) for n in range(3))
    assert run.engine.idle


def test_what_is_looked_at_is_solved_in_steps_too_when_nothing_follows() -> None:
    codec = Watched(tiny(TURBO, CHUNK))
    run = Run(codec)
    run.open("a", FIRST)
    run.step(10)
    heard = run.samples("a")
    assert heard == FIRST * TOKEN_SAMPLES - codec.spec.lag_samples
    run.engine.finish("a")
    run.step(6)
    assert run.samples("a") == FIRST * TOKEN_SAMPLES
    assert [done for step in codec.steps for done in step.values()] == [False, True] * 2


def test_a_passage_gives_all_of_its_sound_before_the_next_is_there() -> None:
    run = Run(tiny(TURBO, CHUNK))
    run.open("a", 12)
    run.engine.feed("a", tokens(2, passage=1))
    run.step(10)
    assert run.samples("a") == 12 * TOKEN_SAMPLES


@pytest.mark.parametrize(
    "kind",
    [
        "cosyvoice3",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("cosyvoice2", "chatterbox")),
    ],
)
def test_streams_are_sounded_as_one_batch_and_as_each_is_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, shown = tiny(kind), list[int]()
    hift = codec._sound.net
    plain = hift.decode

    def decode(mel: Tensor, source: Tensor) -> Tensor:
        shown.append(len(mel))
        return plain(mel, source)

    def heard(*seeds: int) -> list[Samples]:
        states = [told(codec, seed) for seed in seeds]
        said = {name: array for name, array in tokens(75).items() if name in codec.spec.frame}
        pieces = [(cut(said, 0, 50), False), (cut(said, 50, 75), True)]
        parts = [codec.decode([Work(s, of, final=end) for s in states]) for of, end in pieces]
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    monkeypatch.setattr(hift, "decode", decode)
    beside = one, other = heard(1, 2)
    assert set(shown) == {2}
    for seed, samples in enumerate(beside, 1):
        (alone,) = heard(seed)
        assert len(alone) == 75 * TOKEN_SAMPLES
        # Convolutions of a batch may sum in another order.
        np.testing.assert_allclose(samples, alone, 0, 0.1 / 32768)
    assert not np.array_equal(one, other)


def of_outermost_taps(kind: str) -> Hift:
    """Whose sound depends by far more on the frames at the ends of its receptive field."""
    net = deepcopy(networks(kind).hift).double()
    for name, conv in net.named_modules():
        if isinstance(conv, nn.Conv1d) and not name.startswith("f0_predictor"):
            conv.weight[..., 1:-1] = 0
            conv.weight *= conv.kernel_size[0] ** 0.5
    return net


@pytest.mark.parametrize("kind", ["cosyvoice2", "cosyvoice3", "chatterbox"])
def test_joints_of_pieces_are_no_steps(kind: str) -> None:
    """HiFT piece by piece, without a fade, gives the samples of all frames at once; where a window
    is one frame short at either end, some differ by 3e-5 or more.
    """
    sound, count = Sound(of_outermost_taps(kind), networks(kind).phase), 120
    c, random = sound.net.sizes, torch.Generator().manual_seed(0)
    size = c.harmonics, count * FRAME_SAMPLES
    drawn = torch.randn(size, dtype=torch.float64, generator=random)
    mel = torch.randn(c.mels, count, generator=random).double().cumsum(1) * 0.1 - 3

    def heard(*ends: int) -> Asking[Tensor]:
        window, at, parts = sound.window(torch.zeros(c.harmonics).double()), 0, []
        for end in ends:
            window, samples = yield from sound.advance(
                window,
                mel[:, at:end],
                lambda first, samples: drawn[:, first : first + samples],
                upto=count,
                complete=end == count,
            )
            parts.append(samples)
            at = end
        return torch.cat(parts)

    whole, pieces = together([heard(count), heard(*range(50, count, 7), count)])
    assert whole.abs().max() > 0.05
    torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ["cosyvoice2", "cosyvoice3", "chatterbox"])
def test_a_receptive_field_is_as_long_as_it_is_stated(kind: str) -> None:
    """Of a frame that is no number, all samples and pitches that depend on it are none either."""
    net, at = networks(kind).hift, 40
    mel, source = torch.zeros(1, net.sizes.mels, 80), torch.zeros(1, 80 * FRAME_SAMPLES)
    one_mel, one_source = mel.clone(), source.clone()
    one_mel[..., at] = one_source[:, at * FRAME_SAMPLES : (at + 1) * FRAME_SAMPLES] = torch.nan
    found = [net.decode(one_mel, source)[0], net.decode(mel, one_source)[0]]
    frames = [sound.isnan().unflatten(0, (-1, FRAME_SAMPLES)).any(1).nonzero() for sound in found]
    heard, pitches = torch.cat(frames), net.f0_predictor(one_mel.double())[0].isnan().nonzero()
    assert net.reach == (
        *(int(heard.max()) - at, at - int(heard.min())),
        *(int(pitches.max()) - at, at - int(pitches.min())),
    )


def test_streams_carry_what_there_is_memory_for_and_are_computed_again_without() -> None:
    codec = tiny(TURBO, CHUNK)
    run = Run(codec)
    value = run.engine.metrics.registry.get_sample_value
    every = AMPLE // codec.spec.state_bytes
    assert run.engine.kv_positions == (every, every)
    assert value("tts_codec_state_bytes", {"state": "limit"}) == AMPLE
    run.open("a", FIRST)
    run.step(4)
    # Tails of convolutions, which do not grow, are some frames more.
    taken = every - run.engine.kv_positions[0]
    assert PROMPT + FIRST - LOOKAHEAD <= taken <= PROMPT + FIRST + 30
    assert value("tts_codec_state_bytes", {"state": "used"}) == codec.state_use.held_bytes > 0
    assert value("tts_codec_recomputations_total") == 0
    run.engine.cancel("a")
    run.step()
    assert run.engine.kv_positions == (every, every)
    assert value("tts_codec_state_bytes", {"state": "used"}) == 0
    assert run.engine.idle
    poor = Run(tiny(TURBO, CHUNK, memory=1))
    poor.open("a", FIRST + 2 * CHUNK, final=True)
    poor.step(20)
    assert isinstance(poor.heard["a"][-1], Finished)
    # All but the first: another on the grid, and the end.
    assert poor.engine.metrics.registry.get_sample_value("tts_codec_recomputations_total") == 2


def test_what_a_token_costs_is_told_of_stretches() -> None:
    """A millisecond passes whenever the engine looks at its clock."""
    milliseconds = count()
    run = Run(tiny(TURBO, CHUNK), lambda: next(milliseconds) / 1000)
    assert (run.engine.step_seconds, run.engine.frame_seconds) == ({}, 0.0)
    run.open("a", FIRST + CHUNK, final=True)
    run.step(20)
    assert run.engine.step_seconds.keys() == {1}
    assert 2e-5 < run.engine.frame_seconds < 2e-2


def test_a_hop_ends_on_the_grid_that_begins_with_the_recording() -> None:
    codec = tiny("cosyvoice2", CHUNK)
    state, one = told(codec), {"token": tokens(FIRST)["token"]}
    hop = FIRST - LOOKAHEAD  # the first would bring no sound by itself
    assert codec.due(state, one, ended=False) == Due(FIRST, closes=False)
    assert codec.due(state, cut(one, 0, FIRST - 1), ended=False) is None
    assert codec.due(state, cut(one, 0, hop), ended=True) == Due(hop, closes=True)


def test_a_recording_whose_mel_and_tokens_differ_in_length_is_refused() -> None:
    codec = S3Flow("m", TURBO, networks(TURBO, CHUNK), CodecOptions())
    damaged = recording() | {"mel": recording()["mel"][:-1]}
    with pytest.raises(MalformedMessage, match="two a token"):
        codec.conditions(SpeechRequest("r", "m", "", "text"), damaged)


# Step-Audio 2's flow, which has no mask: what is kept of a stream's state, and what is shared.


def window(memory: int = AMPLE) -> S3Flow:
    return tiny("step_audio2", memory=memory)


def spoken(of: S3Flow, state: S3Stream, count: int, *, final: bool = False) -> Samples:
    (samples,) = of.decode([Work(state, {"token": tokens(count)["token"]}, final=final)])
    return samples


def test_state_stays_bounded_and_grows_with_the_encoder_alone() -> None:
    of = window()
    state, sizes = told(of), []
    for _ in range(8):
        spoken(of, state, 25)
        assert state.passage is not None
        kept = state.passage.kept
        sizes.append((sum(past.nbytes for past in kept.pasts), kept.encoded.nbytes))
    assert len({flows for flows, _ in sizes[-3:]}) == 1
    assert of.state_use.held_bytes == sum(sizes[-1])


@pytest.mark.slow
def test_admission_hears_of_what_streams_will_carry_before_they_do() -> None:
    """Of two that have just begun it foretells as many more as when both have spoken."""
    alone, slots = window(), 64
    spoken(alone, told(alone), 60)
    of = window(10 * alone.state_use.held_bytes)
    states, guesses = [told(of), told(of)], []
    for _ in range(2):
        (free, every), left = of.room, slots - len(states)
        replica = Replica("v", "vocoder", (), slots, left, kv_free=free, kv_positions=every)
        guesses.append(cached_streams(replica))
        for state in states:
            spoken(of, state, 60)
    assert 8 <= guesses[0] <= guesses[1] <= 12, guesses
    for state in states:
        of.close(state)
    assert of.room == (every, every)


def test_streams_of_a_voice_share_what_its_recording_leaves() -> None:
    of = window()
    one, other, third = told(of), told(of), told(of, voice=2)
    alone = spoken(of, one, 40, final=True)
    assert one.prompt is other.prompt
    assert one.prompt is not third.prompt
    assert other.prompt is not None
    assert other.prompt.opened is not None
    np.testing.assert_allclose(spoken(of, other, 40, final=True), alone, 0, 2e-4)


def test_more_than_the_authors_positions_is_refused() -> None:
    of = window()
    with pytest.raises(MalformedMessage, match="5000"):
        spoken(of, told(of), 2490, final=True)
