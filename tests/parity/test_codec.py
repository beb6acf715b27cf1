"""What is the own of Qwen3-TTS' codec: windows, and sound that goes on from a recording's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.parity.conftest import Arrays, Checkpoints, goldens
from tests.parity.material import frames
from ttsfamilies.qwen3_tts.codec.net import CodecDecoder
from ttsfamilies.qwen3_tts.codec.stream import CodecStream, Windows, advance
from ttsfamilies.qwen3_tts.codec.weights import load_decoder

FRAMES = 24


@pytest.fixture(scope="module")
def wanted() -> Arrays:
    return goldens("codec")


@pytest.fixture(scope="module")
def decoder(checkpoints: Checkpoints) -> CodecDecoder:
    return load_decoder(checkpoints["custom"] / "speech_tokenizer")


def test_windows_are_the_official_ones_within_1e_4(decoder: CodecDecoder, wanted: Arrays) -> None:
    stream = CodecStream(decoder, Windows(10, 4))
    parts = torch.from_numpy(frames(FRAMES, 9)).split(7)
    samples = torch.cat([advance([stream], [part])[0] for part in parts])[::3]
    assert np.abs(samples.numpy() - wanted["windowed"]).max() < 1e-4
    assert np.abs(wanted["windowed"] - wanted["once"]).max() > 1e-3


def test_a_clones_sound_is_the_official_one_without_its_reference(
    checkpoints: Checkpoints, talker_goldens: Arrays
) -> None:
    """The official package decodes reference and speech together and cuts the reference off."""
    stream = CodecStream(load_decoder(checkpoints["base"] / "speech_tokenizer"))
    spoken = talker_goldens["in context, sampled/0/codes"].astype(np.int64)
    advance([stream], [torch.from_numpy(frames(9, 5))])
    samples = advance([stream], [torch.from_numpy(spoken)])[0][::3]
    official = talker_goldens["in context, sampled/wav"]
    assert np.abs(samples.numpy() - official).max() < 1e-4
