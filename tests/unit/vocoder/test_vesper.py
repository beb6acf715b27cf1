"""The default voice's codec in the engine's hands, on random weights: exactness is the same."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.vocoder.tiny_vesper import ENTRIES, tiny
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Samples, Work
from ttsfamilies.vesper.codec.codec import Vesper
from vocoder.engine.engine import Engine
from vocoder.engine.stream import DecodedAudio, Event, Finished
from vocoder.pcm import to_pcm

Codes = npt.NDArray[np.int16]

FRAMES = 30
STEP = 1 / 32768


@cache
def codec() -> Vesper:
    return tiny()


def asked(seed: int, voice: str = "slt") -> SpeechRequest:
    return SpeechRequest(f"r{seed}", "vesper", voice, "text", seed=seed)


def work(state: object, codes: Codes, final: bool) -> Work:
    return Work(state, {"codes": codes}, final)


@cache
def sequence(seed: int) -> Codes:
    return np.random.default_rng(seed).integers(0, ENTRIES, (FRAMES, 4)).astype(np.int16)


@cache
def offline(seed: int) -> Samples:
    """One shot, without the engine, the adapter or any state."""
    with torch.inference_mode():
        codes = torch.from_numpy(sequence(seed).astype(np.int64))[None]
        return codec()._decoder(codes, 0.1, 1.2)[0].numpy()


# Each round decodes some streams, each by some number of frames, perhaps none.
rounds_ = st.lists(
    st.dictionaries(st.integers(0, 4), st.integers(0, 12), min_size=1), min_size=1, max_size=8
)


@settings(max_examples=15)
@given(rounds_)
def test_samples_do_not_depend_on_cuts_or_company(rounds: list[dict[int, int]]) -> None:
    states = {seed: codec().open(asked(seed)) for seed in range(5)}
    done = dict.fromkeys(states, 0)
    heard: defaultdict[int, list[Samples]] = defaultdict(list)
    last = dict.fromkeys(states, FRAMES)
    for wanted in [*rounds, last]:
        chosen = {
            seed: min(frames, FRAMES - done[seed])
            for seed, frames in wanted.items()
            if wanted is last or done[seed] + frames < FRAMES
        }
        if not chosen:
            continue
        batch = [
            work(states[seed], sequence(seed)[done[seed] : done[seed] + frames], wanted is last)
            for seed, frames in chosen.items()
        ]
        for (seed, frames), piece in zip(chosen.items(), codec().decode(batch), strict=True):
            done[seed] += frames
            heard[seed].append(piece)
            so_far = sum(map(len, heard[seed]))
            assert so_far == codec().spec.samples(done[seed], final=wanted is last)
    for seed, pieces in heard.items():
        np.testing.assert_allclose(np.concatenate(pieces), offline(seed), rtol=0, atol=STEP / 4)


def test_a_tail_may_come_without_frames() -> None:
    state = codec().open(asked(0))
    (body,) = codec().decode([work(state, sequence(0), final=False)])
    (tail,) = codec().decode([work(state, sequence(0)[:0], final=True)])
    assert len(tail) == codec().spec.lag_samples
    np.testing.assert_allclose(np.concatenate([body, tail]), offline(0), rtol=0, atol=STEP / 4)


def test_the_engine_adds_and_loses_nothing_among_concurrent_streams() -> None:
    engine = Engine(codec(), slots=16, metrics=Metrics())
    heard: defaultdict[str, list[int]] = defaultdict(list)
    ended = {f"r{seed}": threading.Event() for seed in range(16)}

    def listen(events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, DecodedAudio):
                heard[key].extend(event.pcm.tolist())
            else:
                assert isinstance(event, Finished)
                ended[key].set()

    engine.listen(listen)
    engine.start()
    for seed in range(16):
        engine.open(asked(seed))
    for start in range(0, FRAMES, 7):
        for seed in range(16):
            engine.feed(f"r{seed}", {"codes": sequence(seed)[start : start + 7]})
    for key in ended:
        engine.finish(key)
    assert all(event.wait(30) for event in ended.values())
    engine.stop()
    assert engine.idle
    for seed in range(16):
        difference = np.array(heard[f"r{seed}"]) - to_pcm(offline(seed))
        assert np.abs(difference).max() <= 1


def test_every_shape_can_be_warmed_up() -> None:
    codec().warm_up([(1, 1), (1, 16), (4, 2)])


def test_an_unknown_voice_is_refused() -> None:
    with pytest.raises(UnknownVoice):
        codec().open(asked(0, "nobody"))
