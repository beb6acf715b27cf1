"""The decoder's training: segments as in a stream, and an error that falls."""

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


def _corpus(teacher: VesperDecoder, lengths: list[int]) -> HiddenCorpus:
    """Hidden states that a decoder makes of random codes between silences."""
    codes = np.random.default_rng(1).integers(0, 32, (sum(lengths), 4))
    hidden, start = [], np.cumsum([0, *lengths])
    begin = BEFORE * HOPS_PER_FRAME + teacher.config.late_hops
    for part in torch.from_numpy(codes).split(lengths):
        silences = (teacher.silence.expand(count, -1) for count in (BEFORE, 4))
        told = torch.cat((part, *silences)).roll(BEFORE, 0)[None]
        f0 = teacher.pitch(told[..., 0], torch.zeros(1), torch.ones(1))
        with torch.inference_mode():
            made = teacher.hidden(teacher.inputs(told, f0))[0]
        hidden.append(made[begin : begin + len(part) * HOPS_PER_FRAME].half().numpy())
    flat = np.ones(len(lengths), np.float32)
    return HiddenCorpus(codes.astype(np.int16), np.concatenate(hidden), start, 0 * flat, flat)


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
    segments = Segments(
        _corpus(decoder, [60, 70]), decoder.silence.numpy(), decoder.config.late_hops
    )
    batch = segments.batch(np.array([0, 1, 0, 1]), generator)
    with torch.inference_mode():
        assert float(distillation_error(decoder, batch, torch.ones(32))) < 0.02


@pytest.mark.usefixtures("clock")
def test_training_lowers_the_error_and_resumes(decoder: VesperDecoder, tmp_path: Path) -> None:
    teacher = VesperDecoder(decoder.config).eval()
    for name in ("pitch_table", "energy_table", "text_table"):
        getattr(teacher, name).data = getattr(decoder, name).data
    corpus = _corpus(teacher, [45] * 30)
    segments = Segments(corpus, decoder.silence.numpy(), decoder.config.late_hops)
    held, scale = np.arange(26, 30), torch.from_numpy(corpus.hidden.astype(np.float32)).std(0)

    def error() -> float:
        batch = segments.batch(held, np.random.default_rng(5))
        with torch.inference_mode():
            return float(distillation_error(decoder.eval(), batch, scale))

    errors = [error()]
    head = decoder.head.weight.detach().clone()
    for steps in (8, 20):
        train_decoder(decoder, corpus, held, tmp_path / "decoder.pt", steps, seed=1)
        errors.append(error())
    assert errors[2] < errors[1] < errors[0]
    assert torch.equal(decoder.head.weight, head)
