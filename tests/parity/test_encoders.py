"""Both encoders hear what the official package hears."""

import numpy as np
import pytest
import torch

from tests.parity.cases import RATES
from tests.parity.conftest import Arrays, Checkpoints
from tests.parity.material import SAMPLE_RATE, arrays, audio
from ttsfamilies.base.lm.recordings import resampled
from ttsfamilies.qwen3_tts.cloning import CodecEncoder, SpeakerEncoder
from ttsfamilies.qwen3_tts.net import load_encoders

pytestmark = pytest.mark.slow  # one more family

Encoders = tuple[SpeakerEncoder, CodecEncoder]

SECONDS = {"short": 1.31, "long": 12.0}


@pytest.fixture(scope="module")
def wanted() -> Arrays:
    return arrays("encoders")


@pytest.fixture(scope="module")
def encoders(checkpoints: Checkpoints) -> Encoders:
    return load_encoders(checkpoints["base"])


def _wav(name: str) -> torch.Tensor:
    return torch.from_numpy(audio(SECONDS[name], 3))


def test_mel_spectra_are_the_official_ones(encoders: Encoders, wanted: Arrays) -> None:
    mels = encoders[0].mels(_wav("short")[None])[0].T[::3]
    assert np.abs(mels.numpy() - wanted["short/mels"]).max() < 1e-4


@pytest.mark.parametrize("name", SECONDS)
def test_speaker_embeddings_are_the_official_ones(
    encoders: Encoders, wanted: Arrays, name: str
) -> None:
    found = encoders[0](_wav(name)[None])[0]
    assert np.abs(found.numpy() - wanted[f"{name}/speaker"]).max() < 1e-4


@pytest.mark.parametrize("name", SECONDS)
def test_codes_of_a_reference_are_the_official_ones(
    encoders: Encoders, wanted: Arrays, name: str
) -> None:
    codes = encoders[1](_wav(name))
    assert codes.tolist() == wanted[f"{name}/codes"].tolist()


@pytest.mark.parametrize("rate", RATES)
def test_recordings_at_other_rates_are_heard_as_the_official_package_hears_them(
    encoders: Encoders, wanted: Arrays, rate: int
) -> None:
    heard = torch.from_numpy(resampled(audio(1.31, 3, rate), rate, SAMPLE_RATE))
    assert encoders[1](heard).tolist() == wanted[f"{rate}/codes"].tolist()
    speaker = encoders[0](heard[None])[0].numpy()
    assert np.abs(speaker - wanted[f"{rate}/speaker"]).max() < 1e-4


@pytest.mark.parametrize("name", SECONDS)
def test_what_is_quantised_is_the_official_within_1e_4(
    encoders: Encoders, wanted: Arrays, name: str
) -> None:
    latents = encoders[1].latents(_wav(name))[0, :, ::4]
    assert np.abs(latents.numpy() - wanted[f"{name}/latents"]).max() < 1e-4


def test_a_partial_frame_counts_as_one(encoders: Encoders) -> None:
    samples = encoders[1].config.encode_downsample_rate
    assert SAMPLE_RATE // samples == 12
    for count, frames in ((samples * 13, 13), (samples * 13 + 1, 14), (samples * 14 - 1, 14)):
        assert len(encoders[1](torch.zeros(count))) == frames
