"""The decoder's training: segments as in a stream, and an error that falls."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME, VesperDecoder
from voicetrain.vesper.distil import (
    BEFORE,
    FRAMES,
    HiddenCorpus,
    Segments,
    distillation_error,
    train_decoder,
)


def _corpus(decoder: VesperDecoder, lengths: list[int]) -> HiddenCorpus:
    """Hidden states that another decoder makes of random codes."""
    frames = sum(lengths)
    generator = np.random.default_rng(1)
    codes = generator.integers(0, 32, (frames, 4)).astype(np.int16)
    teacher, late = VesperDecoder(decoder.config).eval(), decoder.config.late_hops
    for name in ("pitch_table", "energy_table", "text_table"):
        getattr(teacher, name).data = getattr(decoder, name).data
    start = np.concatenate([[0], np.cumsum(lengths)])
    hidden = []
    for first, last in itertools.pairwise(start):
        told = torch.from_numpy(codes[first:last].astype(np.int64))[None]
        f0 = teacher.pitch(told[..., 0], torch.zeros(1), torch.ones(1))
        x = torch.nn.functional.pad(teacher.inputs(told, f0), (0, 0, 0, late))
        with torch.inference_mode():
            hidden.append(teacher.hidden(x)[0, late:].numpy().astype(np.float16))
    flat = np.ones(len(lengths), np.float32)
    return HiddenCorpus(codes, np.concatenate(hidden), start, 0 * flat, flat)


def test_segments_are_surrounded_by_silence_and_only_speech_counts(
    decoder: VesperDecoder, generator: np.random.Generator
) -> None:
    corpus = _corpus(decoder, [12, 50])
    silence = np.array([7, 7, 7, 7])
    batch = Segments(corpus, silence, decoder.config.late_hops).batch(np.array([0, 0]), generator)
    assert (batch["codes"][:, : BEFORE - 1] == 7).all()
    assert batch["counted"].shape == (2, FRAMES * HOPS_PER_FRAME)
    assert (batch["counted"].sum(1) <= 12 * HOPS_PER_FRAME).all()
    shown = batch["codes"][0, BEFORE : BEFORE + FRAMES]
    inside = batch["counted"][0].view(FRAMES, HOPS_PER_FRAME)[:, 0]
    assert (shown[~inside] == 7).all()


def test_a_decoder_that_makes_the_hidden_state_has_no_error(
    decoder: VesperDecoder, generator: np.random.Generator
) -> None:
    corpus = _corpus(decoder, [60, 70])
    own = []
    for first, last in ((0, 60), (60, 130)):
        codes = torch.from_numpy(corpus.codes[first:last].astype(np.int64))[None]
        late = decoder.config.late_hops
        padded = torch.cat((decoder.silence.expand(1, 40, -1), codes, codes[:, :4]), 1)
        f0 = decoder.pitch(padded[..., 0], torch.zeros(1), torch.ones(1))
        with torch.inference_mode():
            made = decoder.hidden(decoder.inputs(padded, f0))[0]
        at = 40 * HOPS_PER_FRAME + late
        own.append(made[at : at + (last - first) * HOPS_PER_FRAME].numpy().astype(np.float16))
    corpus = HiddenCorpus(
        corpus.codes, np.concatenate(own), corpus.frame_start, corpus.level, corpus.span
    )
    segments = Segments(corpus, decoder.silence.numpy(), decoder.config.late_hops)
    batch = segments.batch(np.array([0, 1, 0, 1]), generator)
    batch["counted"][:, -FRAMES:] = False  # the frames behind the end are not those above
    with torch.inference_mode():
        assert float(distillation_error(decoder, batch, torch.ones(32))) < 0.02


def test_training_lowers_the_error_and_resumes(
    decoder: VesperDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = _corpus(decoder, [45] * 30)
    segments = Segments(corpus, decoder.silence.numpy(), decoder.config.late_hops)
    held, scale = np.arange(26, 30), torch.from_numpy(corpus.hidden.astype(np.float32)).std(0)

    def error() -> float:
        batch = segments.batch(held, np.random.default_rng(5))
        with torch.inference_mode():
            return float(distillation_error(decoder.eval(), batch, scale))

    errors = [error()]
    head = decoder.head.weight.detach().clone()
    monkeypatch.setattr("voicetrain.loop.time.process_time", itertools.count().__next__)
    for steps in (12, 36):
        train_decoder(decoder, corpus, held, tmp_path / "decoder.pt", steps, seed=1)
        errors.append(error())
    assert errors[2] < errors[1] < errors[0]
    assert torch.equal(decoder.head.weight, head)
