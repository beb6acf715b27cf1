"""Segments for the vocoder, its losses, and mel features."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from vocoder.codecs.cantor_net import CantorCodecConfig, CantorDecoder
from voicetrain.data import Corpus
from voicetrain.features import FRAME_SAMPLES, HOP, log_mel, mel_matrix
from voicetrain.vocoder_stage import (
    CONTEXT_FRAMES,
    SEGMENT_FRAMES,
    Segments,
    spectral_distance,
    vocoder_losses,
)

CorpusOf = Callable[[list[int], list[int]], Corpus]

FRAMES = [60, 30, 10]


@pytest.fixture
def segments(corpus_of: CorpusOf) -> Segments:
    corpus = corpus_of(FRAMES, [9, 5, 2])
    hops = sum(FRAMES) * 4
    samples = [60 * FRAME_SAMPLES, 0, 10 * FRAME_SAMPLES]
    corpus = replace(
        corpus,
        mel=np.arange(hops, dtype=np.float16)[:, None].repeat(80, 1),
        f0=np.arange(hops, dtype=np.float32),
        audio=np.arange(sum(samples)).astype(np.int16),
        sample_start=np.concatenate([[0], np.cumsum(samples)]),
    )
    codes = np.arange(sum(FRAMES))[:, None].repeat(4, 1)
    return Segments(corpus, codes)


def test_codes_features_and_sound_of_a_segment_belong_together(segments: Segments) -> None:
    codes, mel, pitch, audio = segments.draw(8, np.random.default_rng(0))
    assert codes.shape == (8, CONTEXT_FRAMES + SEGMENT_FRAMES, 4)
    assert mel.shape == (8, SEGMENT_FRAMES * 4, 80)
    assert audio.shape == (8, SEGMENT_FRAMES * FRAME_SAMPLES)
    first_frame = codes[:, CONTEXT_FRAMES, 0]
    assert torch.equal(pitch[:, 0], first_frame.float() * 4)
    first_sample = (first_frame * FRAME_SAMPLES).numpy().astype(np.int16)
    assert np.array_equal(np.round(audio[:, 0].numpy() * 32768), first_sample)


def test_only_utterances_with_sound_and_length_are_drawn(segments: Segments) -> None:
    assert segments.utterances.tolist() == [0]


def test_the_decoder_learns_from_the_sound_only_when_joint() -> None:
    torch.manual_seed(0)
    decoder = CantorDecoder(CantorCodecConfig(decoder_dim=16, vocoder_dim=16))
    batch = (
        torch.randint(0, 512, (2, CONTEXT_FRAMES + SEGMENT_FRAMES, 4)),
        torch.zeros(2, SEGMENT_FRAMES * 4, 80),
        torch.full((2, SEGMENT_FRAMES * 4), 120.0),
        0.1 * torch.randn(2, SEGMENT_FRAMES * FRAME_SAMPLES),
    )
    gradients = []
    for joint in (False, True):
        torch.manual_seed(1)
        decoder.zero_grad()
        loss, parts = vocoder_losses(decoder, batch, joint=joint)
        assert all(bool(torch.isfinite(value)) for value in parts.values())
        loss.backward()
        gradient = decoder.decoder_out.weight.grad
        assert gradient is not None
        gradients.append(gradient.clone())
    assert not torch.allclose(gradients[0], gradients[1])


def test_equal_sounds_have_no_spectral_distance() -> None:
    torch.manual_seed(0)
    sound, other = torch.randn(2, 2, 4800)
    assert float(spectral_distance(sound, sound)) < 1e-3
    assert float(spectral_distance(sound, other)) > 0.1


def test_a_tone_stands_in_the_mel_band_of_its_pitch() -> None:
    tone = torch.sin(2 * torch.pi * 1000 * torch.arange(100 * HOP) / 16_000)[None]
    mel = log_mel(tone)
    assert mel.shape == (1, 100, 80)
    band = int(mel[0, 50].argmax())
    peak_bin = int(mel_matrix()[band].argmax())
    assert peak_bin * 16_000 / 512 == pytest.approx(1000, abs=60)
