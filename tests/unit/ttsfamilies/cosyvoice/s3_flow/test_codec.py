"""The flow in the vocoder's engine: a step a launch, first sounds in front, bounded memory."""

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from tests.unit.ttsfamilies import codecs
from tests.unit.ttsfamilies.cosyvoice.s3_flow.tiny import (
    AMPLE,
    PROMPT,
    Tiny,
    networks,
    recording,
    tiny,
)
from ttscommon.cluster.admission.capacity import realtime_streams
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Replica
from ttsfamilies.base.codec.base import Due, Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.pages import S3Ticket
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, LOOKAHEAD, TOKEN_SAMPLES
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


def test_no_launch_holds_more_than_a_step_of_any_stretch() -> None:
    codec = Watched(tiny(TURBO, CHUNK))
    run = Run(codec)
    run.open("a", FIRST + CHUNK + 5, final=True)
    run.step(20)
    assert isinstance(run.heard["a"][-1], Finished)
    assert run.samples("a") == (FIRST + CHUNK + 5) * TOKEN_SAMPLES
    assert [done for step in codec.steps for done in step.values()] == [False, True] * 3


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


def test_streams_carry_what_there_is_memory_for_and_admission_hears_of_it() -> None:
    codec = tiny(TURBO, CHUNK)
    run = Run(codec)
    assert run.engine.kv_positions == (AMPLE // codec.spec.state_bytes,) * 2
    run.open("a", FIRST)
    run.step(4)
    free, every = run.engine.kv_positions
    # Tails of convolutions, which do not grow, are some frames more.
    assert PROMPT + FIRST - LOOKAHEAD <= every - free <= PROMPT + FIRST + 30
    run.engine.cancel("a")
    run.step()
    assert run.engine.kv_positions == (every, every)
    assert run.engine.idle


def test_metrics_say_what_streams_carry_and_what_was_computed_again() -> None:
    codec = tiny(TURBO, CHUNK)
    run = Run(codec)
    value = run.engine.metrics.registry.get_sample_value
    assert value("tts_codec_state_bytes", {"state": "limit"}) == AMPLE
    assert value("tts_codec_state_bytes", {"state": "used"}) == 0
    run.open("a", FIRST + CHUNK)
    run.step(10)
    assert value("tts_codec_state_bytes", {"state": "used"}) == codec.state_use.held_bytes > 0
    assert value("tts_codec_recomputations_total") == 0
    run.engine.cancel("a")
    run.step()
    assert value("tts_codec_state_bytes", {"state": "used"}) == 0
    poor = Run(tiny(TURBO, CHUNK, memory=1))
    poor.open("a", FIRST + 2 * CHUNK, final=True)
    poor.step(20)
    assert isinstance(poor.heard["a"][-1], Finished)
    # All but the first: another on the grid, and the end.
    assert poor.engine.metrics.registry.get_sample_value("tts_codec_recomputations_total") == 2


def test_what_stretches_cost_reaches_admission() -> None:
    """A millisecond passes whenever the engine looks at its clock."""
    milliseconds = count()
    run = Run(tiny(TURBO, CHUNK), lambda: next(milliseconds) / 1000)
    assert (run.engine.step_seconds, run.engine.frame_seconds) == ({}, 0.0)
    run.open("a", FIRST + CHUNK, final=True)
    run.step(20)
    engine = run.engine
    assert engine.step_seconds.keys() == {1}
    free, every = engine.kv_positions
    told = Replica(
        "v",
        "vocoder",
        models=(),
        slots=1000,
        free=1000,
        step_s=engine.step_seconds,
        frame_s=engine.frame_seconds,
        kv_free=free,
        kv_positions=every,
    )
    rate = engine.spec.frame_rate_hz
    assert realtime_streams(told, rate, 0.5) == int(0.5 / rate / engine.frame_seconds)
    assert 1 < realtime_streams(told, rate, 0.5) < 1000


def test_a_hop_ends_on_the_grid_that_begins_with_the_recording() -> None:
    codec = tiny("cosyvoice2", CHUNK)
    state = codec.open(SpeechRequest("r", "m", "", "text"))
    codec.tell(state, recording())
    hop = FIRST - LOOKAHEAD  # the first would bring no sound by itself
    one = {"token": tokens(FIRST)["token"]}
    assert codec.due(state, one, ended=False) == Due(FIRST, closes=False)
    assert codec.due(state, {"token": one["token"][:-1]}, ended=False) is None
    assert codec.due(state, {"token": one["token"][:hop]}, ended=True) == Due(hop, closes=True)


def test_a_recording_whose_mel_and_tokens_differ_in_length_is_refused() -> None:
    codec = S3Flow("m", TURBO, networks(TURBO, CHUNK), CodecOptions())
    damaged = recording() | {"mel": recording()["mel"][:-1]}
    with pytest.raises(MalformedMessage, match="two a token"):
        codec.conditions(SpeechRequest("r", "m", "", "text"), damaged)
